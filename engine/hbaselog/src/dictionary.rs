//! The dictionaries of a compressed log: a word that was used recently is written as a number.
//!
//! ```text
//! new word      0xff · length (7 bits a byte) · bytes
//! known word    number 2B, below 0x8000
//! ```
//!
//! Writer and reader give the same words the same numbers. A new word gets the next free number. If there is none, it
//! replaces the least recently used word.

use crate::source::{Source, Stop, wrong};

/// The byte that precedes a new word.
const NEW: u8 = 0xff;
/// Maximum length of a word, in bytes; rows and qualifiers are the longest.
const WORD_MAX: usize = 64 << 20;
/// The number that means "no neighbour".
const NONE: u16 = u16::MAX;

/// The dictionary of one kind of word.
pub(crate) struct Dictionary {
    max: u16,
    words: Vec<Word>,
    /// The number of the most recently used word.
    first: u16,
    /// The number of the least recently used word.
    last: u16,
}

struct Word {
    bytes: Vec<u8>,
    newer: u16,
    older: u16,
}

impl Dictionary {
    /// Creates an empty dictionary for at most `max` words.
    pub(crate) fn new(max: u16) -> Dictionary {
        Dictionary { max, words: Vec::new(), first: NONE, last: NONE }
    }

    /// Appends the next word in `source` to `out`, and returns its length.
    pub(crate) fn read(&mut self, source: &mut Source, out: &mut Vec<u8>) -> Result<usize, Stop> {
        let first = source.byte()?;
        if first == NEW {
            let length = source.length("length of a word", WORD_MAX)?;
            let bytes = source.take(length)?;
            out.extend_from_slice(bytes);
            let word = bytes.to_vec();
            self.add(word);
            return Ok(length);
        }
        let number = u16::from_be_bytes([first, source.byte()?]);
        let known = self.words.len();
        let word = self
            .words
            .get(usize::from(number))
            .ok_or_else(|| wrong("word", format!("a number below {known}"), number))?;
        out.extend_from_slice(&word.bytes);
        let length = word.bytes.len();
        self.used(number);
        Ok(length)
    }

    /// Decodes the word in a field of a message.
    pub(crate) fn read_field(&mut self, field: &[u8]) -> Result<Vec<u8>, Stop> {
        let (&first, rest) = field.split_first().ok_or_else(|| wrong("name", "a word", "nothing"))?;
        if first == NEW {
            // The first bytes of `rest` are the length of the word, which is also the number of bytes that follow it.
            let digits = rest.iter().position(|byte| *byte < 0x80).map(|at| at + 1);
            let word = digits.and_then(|digits| rest.get(digits..)).unwrap_or_default().to_vec();
            self.add(word.clone());
            return Ok(word);
        }
        let number = rest.first().map_or(NONE, |second| u16::from_be_bytes([first, *second]));
        let word = self.words.get(usize::from(number)).map(|word| word.bytes.clone());
        let word = word.ok_or_else(|| wrong("name", "a known word", number))?;
        self.used(number);
        Ok(word)
    }

    fn add(&mut self, bytes: Vec<u8>) {
        // As in HBase, an empty word has no number, and is always written as a new word.
        if bytes.is_empty() {
            return;
        }
        if self.words.len() < usize::from(self.max) {
            let number = self.words.len() as u16;
            self.words.push(Word { bytes, newer: NONE, older: NONE });
            self.push_front(number);
        } else {
            let number = self.last;
            self.words[usize::from(number)].bytes = bytes;
            self.used(number);
        }
    }

    fn used(&mut self, number: u16) {
        if self.first != number {
            let Word { newer, older, .. } = self.words[usize::from(number)];
            self.words[usize::from(newer)].older = older;
            match older {
                NONE => self.last = newer,
                older => self.words[usize::from(older)].newer = newer,
            }
            self.push_front(number);
        }
    }

    fn push_front(&mut self, number: u16) {
        let before = std::mem::replace(&mut self.first, number);
        let word = &mut self.words[usize::from(number)];
        (word.newer, word.older) = (NONE, before);
        match before {
            NONE => self.last = number,
            before => self.words[usize::from(before)].newer = number,
        }
    }
}
