//! The file seam: create, write, finish, read, list, delete, swap; never rename.
