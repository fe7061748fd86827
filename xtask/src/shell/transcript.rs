//! The output of a shell, command by command, without the parts that differ from run to run: times, ports, server
//! names, ids, and the frames of Java's stack traces.

use std::fmt;

/// What the shell printed for one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) command: String,
    /// How often the script has had the same command so far, this one included.
    pub(crate) turn: usize,
    pub(crate) lines: Vec<String>,
    /// In the list of differences, the reason why the lines differ.
    pub(crate) reason: String,
}

impl Block {
    pub(crate) fn title(&self) -> String {
        let Block { command, turn, .. } = self;
        if *turn == 1 { format!("> {command}") } else { format!("> {command} ({turn})") }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title())?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The output of all commands, in order.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) blocks: Vec<Block>,
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blocks.iter().try_for_each(|block| writeln!(f, "{block}"))
    }
}

impl Transcript {
    /// Parses the output of a shell that read this script.
    pub(crate) fn of_output(script: &str, output: &str) -> Result<Transcript, String> {
        let mut parts = output.split('\n').skip_while(|line| prompted(line).is_none()).peekable();
        let mut transcript = Transcript::default();
        for line in script.lines() {
            let echo = parts.next().and_then(prompted);
            if echo.map(str::trim_end) != Some(line.trim_end()) {
                return Err(format!("the shell did not read {line:?} but {echo:?}"));
            }
            let mut lines = Vec::new();
            while let Some(line) = parts.next_if(|line| prompted(line).is_none()) {
                lines.push(line);
            }
            if line.trim().is_empty() || line.starts_with('#') || line.ends_with("; nil") {
                continue;
            }
            let (command, marks) = line.split_once(" # ").unwrap_or((line, ""));
            let marks: Vec<&str> = marks.split(' ').collect();
            let mut lines: Vec<String> = lines
                .into_iter()
                .filter(|line| !is_noise(line))
                .map(|line| normalized(line, marks.contains(&"numbers")))
                .collect();
            if marks.contains(&"sorted") {
                lines.sort();
            }
            if marks.contains(&"first") {
                lines.truncate(1);
            }
            let turn = 1 + transcript.blocks.iter().filter(|block| block.command == command).count();
            let reason = String::new();
            transcript.blocks.push(Block { command: command.to_owned(), turn, lines, reason });
        }
        Ok(transcript)
    }

    /// Reads what `Display` wrote. Lines that begin with `# ` are the reason of the blocks after them.
    pub(crate) fn parse(text: &str) -> Transcript {
        let mut transcript = Transcript::default();
        let (mut reason, mut is_open) = (String::new(), false);
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("> ") {
                let numbered = title.strip_suffix(')').and_then(|title| title.rsplit_once(" ("));
                let numbered =
                    numbered.and_then(|(command, turn)| Some((command, turn.parse::<usize>().ok()?)));
                let (command, turn) = numbered.unwrap_or((title, 1));
                let command = command.to_owned();
                transcript.blocks.push(Block { command, turn, lines: Vec::new(), reason: reason.clone() });
                is_open = true;
            } else if let Some(more) = line.strip_prefix("# ") {
                if is_open {
                    reason.clear();
                } else if !reason.is_empty() {
                    reason.push(' ');
                }
                is_open = false;
                reason.push_str(more);
            } else if let Some(block) = transcript.blocks.last_mut().filter(|_| is_open && !line.is_empty()) {
                block.lines.push(line.to_owned());
            }
        }
        transcript
    }

    /// Returns the block of the same command and turn; `None` if there is none.
    pub(crate) fn find(&self, like: &Block) -> Option<&Block> {
        self.blocks.iter().find(|block| block.command == like.command && block.turn == like.turn)
    }
}

/// Returns the command in a line that begins with the shell's prompt; `None` for another line.
fn prompted(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix("hbase:")?.split_once(':')?;
    number.parse::<u32>().ok()?;
    let (depth, command) = rest.split_once("> ")?;
    depth.parse::<u32>().ok()?;
    Some(command)
}

/// Whether a line is a frame of a Java stack trace, a time, empty, or the hint that the client gives after each error.
fn is_noise(line: &str) -> bool {
    let frames = ["\tat ", "\t... ", "Caused by: ", "Took "];
    line.trim().is_empty()
        || frames.iter().any(|start| line.starts_with(start))
        || line.starts_with("For usage try 'help ")
}

/// Replaces the parts that differ from run to run, and, with `numbers`, all other numbers.
fn normalized(line: &str, numbers: bool) -> String {
    let mut out = String::new();
    // The build of HBase that was recorded.
    let line = line.replace("2.6.4-hadoop3", "2.6.4");
    let mut rest = line.trim_end();
    while let Some(first) = rest.chars().next() {
        let inside = out.chars().next_back().is_some_and(|before| before.is_ascii_alphanumeric());
        let found = if inside && !rest.starts_with("0x") { None } else { replaced(rest, numbers) };
        let (text, length) = found.unwrap_or((&rest[..first.len_utf8()], first.len_utf8()));
        // Widths of columns follow from the lengths of names.
        let is_repeated = (text == " " && out.ends_with(' ')) || (text == "-" && out.ends_with("---"));
        if !is_repeated {
            // The files stay text.
            out.push_str(if first.is_control() { "?" } else { text });
        }
        rest = &rest[length..];
    }
    out.trim_end().to_owned()
}

/// Returns the replacement for the beginning of this text, and the length of that beginning; `None` if it stays.
fn replaced(text: &str, numbers: bool) -> Option<(&'static str, usize)> {
    let run = |text: &str, is: fn(u8) -> bool| text.bytes().take_while(|byte| is(*byte)).count();
    let digits = |text: &str| run(text, |byte| byte.is_ascii_digit());
    let hex = |text: &str| run(text, |byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if let Some(rest) = text.strip_prefix("localhost") {
        let port = digits(rest.get(1..)?);
        let after = rest.get(1 + port..)?;
        if port > 0 && rest.starts_with(',') && after.starts_with(',') && digits(&after[1..]) == 13 {
            return Some(("SERVER", "localhost".len() + 1 + port + 14));
        }
        return (port > 0 && rest.starts_with(':'))
            .then_some(("localhost:PORT", "localhost".len() + 1 + port));
    }
    if let Some(rest) = text.strip_prefix("0x") {
        return (hex(rest) > 0).then(|| ("0xN", 2 + hex(rest)));
    }
    if let Some(length) = time(text) {
        return Some(("TIME", length));
    }
    let length = digits(text);
    let ends = |length: usize| !text[length..].starts_with(|next: char| next.is_ascii_alphanumeric());
    if hex(text) == 32 && ends(32) {
        return Some(("ID", 32));
    }
    if length == 13 && ends(length) {
        return Some(("TIME", length));
    }
    if !numbers {
        return None;
    }
    let sign = usize::from(text.starts_with('-'));
    let length = sign + digits(&text[sign..]);
    if length > sign {
        let fraction = text[length..].strip_prefix('.').map_or(0, digits);
        return Some(("N", length + if fraction > 0 { 1 + fraction } else { 0 }));
    }
    None
}

/// Returns the length of a time of this century at the beginning of the text, as `2026-11-26T01:20:00.579` or with a
/// blank, and perhaps a zone; `None` if the text does not begin with one.
fn time(text: &str) -> Option<usize> {
    const SHAPE: &str = "20dd-dd-ddTdd:dd:dd";
    let fits = |shape: char, found: char| match shape {
        'd' => found.is_ascii_digit(),
        'T' => found == 'T' || found == ' ',
        other => other == found,
    };
    let matches = |text: &str, shape: &str| {
        text.len() >= shape.len() && shape.chars().zip(text.chars()).all(|(shape, found)| fits(shape, found))
    };
    if !matches(text, SHAPE) {
        return None;
    }
    let mut length = SHAPE.len();
    for more in [".ddd", "Z", " +dddd"] {
        if matches(&text[length..], more) {
            length += more.len();
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        let line =
            "  localhost,16020,1700000000000 |  t,,1700000000000.0123456789abcdef0123456789abcdef. | 0.5";
        assert_eq!(normalized(line, false), " SERVER | t,,TIME.ID. | 0.5");
        assert_eq!(normalized(line, true), " SERVER | t,,TIME.ID. | N");
        let line = "r column=f:q, timestamp=2026-11-26T01:20:00.579, value=a12 (2026-11-26 01:20:00 +0000)";
        assert_eq!(normalized(line, true), "r column=f:q, timestamp=TIME, value=a12 (TIME)");
        let line = "timestamp=1970-01-01T00:00:00.100 localhost:1 #<Java::X:0x1fe>";
        assert_eq!(
            normalized(line, false),
            "timestamp=1970-01-01T00:00:00.100 localhost:PORT #<Java::X:0xN>"
        );
    }

    #[test]
    fn a_transcript_is_read_as_it_was_written() {
        let script = "x = 1; nil\n# group\nlist\n\nlist # numbers\nexists 't' # first\n";
        let output = "banner\nhbase:001:0> x = 1; nil\nhbase:002:0> # group\nhbase:003:0> list\nTABLE\nTook 0.1 seconds\nhbase:004:0> \nhbase:005:0> list # numbers\n\tat java\n 5 rows\nhbase:006:0> exists 't' # first\ntrue\nfalse\nhbase:007:0> \n";
        let transcript = Transcript::of_output(script, output).unwrap();
        let text = transcript.to_string();
        assert_eq!(text, "> list\nTABLE\n\n> list (2)\n N rows\n\n> exists 't'\ntrue\n\n");
        assert_eq!(Transcript::parse(&text).blocks, transcript.blocks);
        assert!(Transcript::of_output("list\nscan", output).is_err(), "another script");
        let listed = Transcript::parse("# Why:\n# so.\n> a\n1\n\n> b\n# Other\n> c (2)\n");
        assert_eq!(listed.blocks[1].reason, "Why: so.");
        assert_eq!((&listed.blocks[2].reason[..], listed.blocks[2].turn), ("Other", 2));
    }
}
