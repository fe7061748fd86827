# What the primary writes for `cargo xtask test --only replica-tools`, for HBase's shell.
create_namespace 'ns'
create 't', {NAME => 'f', VERSIONS => 3}, {NAME => 'g', COMPRESSION => 'GZ'}, SPLITS => ['m']
create 'ns:other', 'f'
put 't', 'a', 'f:q', 'one', 100
put 't', 'a', 'f:q', 'two', 200
put 't', 'b', 'g:q', 'deleted', 100
put 't', 'z', 'f:q', 'last', 100
incr 't', 'a', 'f:count', 7
flush 't'
delete 't', 'b', 'g:q', 100
put 't', 'c', 'g:', 'not flushed', 300
put 'ns:other', 'x', 'f:y', 'z', 1
disable 'ns:other'
