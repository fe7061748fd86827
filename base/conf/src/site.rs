//! Reads `hbase-site.xml`: a flat list of properties.
//!
//! ```text
//! <configuration>
//!   <property><name>…</name><value>…</value>[<final>true</final>][<description>…</description>]</property>
//! </configuration>
//! ```
//!
//! A property may also have attributes, `<property name="…" value="…"/>`. `<include>` is an error that names it,
//! because ignoring it would lose settings silently.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::{Error, Result};

#[derive(Debug, Default)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) is_final: bool,
}

/// Returns the properties that `xml` sets, in order. `file` names it in errors.
pub(crate) fn read(file: &str, xml: &str) -> Result<Vec<Property>> {
    let mut reader = Reader::from_str(xml);
    let mut site = Site::default();
    loop {
        let event = reader.read_event();
        let offset = reader.buffer_position();
        let outcome = match event {
            Ok(Event::Eof) => {
                let problem = match site.open.last() {
                    Some(tag) => format!("<{tag}> is not closed"),
                    None if site.closed => return Ok(site.properties),
                    None => "there is no <configuration>".to_owned(),
                };
                return Err(Error::File { file: file.to_owned(), offset, problem });
            }
            Ok(event) => site.take(event),
            Err(error) => Err(error.to_string()),
        };
        outcome.map_err(|problem| Error::File { file: file.to_owned(), offset, problem })?;
    }
}

/// The part of a file that was read so far.
#[derive(Default)]
struct Site {
    properties: Vec<Property>,
    open: Vec<String>,
    /// Whether the root element has ended.
    closed: bool,
    text: String,
    name: Option<String>,
    value: Option<String>,
    is_final: bool,
}

impl Site {
    fn take(&mut self, event: Event<'_>) -> std::result::Result<(), String> {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::Empty(tag) => {
                self.start(&tag)?;
                self.end()
            }
            Event::End(_) => self.end(),
            Event::Text(text) => {
                let text = text.decode().map_err(|error| error.to_string())?;
                if self.open.is_empty() && !text.trim().is_empty() {
                    return Err("text outside of <configuration>".to_owned());
                }
                self.text.push_str(&text);
                Ok(())
            }
            Event::CData(text) => {
                self.text.push_str(&text.decode().map_err(|error| error.to_string())?);
                Ok(())
            }
            Event::GeneralRef(reference) => {
                if let Some(character) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
                    self.text.push(character);
                    return Ok(());
                }
                let name = reference.decode().map_err(|error| error.to_string())?;
                let text = quick_xml::escape::resolve_predefined_entity(&name)
                    .ok_or_else(|| format!("&{name}; is not a known entity"))?;
                self.text.push_str(text);
                Ok(())
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Eof => Ok(()),
        }
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> std::result::Result<(), String> {
        let name = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
        match (self.open.len(), name.as_str()) {
            (0, "configuration") if !self.closed => {}
            (0, "configuration") => return Err("a second <configuration>".to_owned()),
            (0, _) => return Err(format!("the root is <{name}>, expected <configuration>")),
            (_, "include") => {
                return Err("<include> is not supported: put its properties into this file".to_owned());
            }
            (1, "property") => {
                (self.name, self.value, self.is_final) = (None, None, false);
                for attribute in tag.attributes() {
                    let attribute = attribute.map_err(|error| error.to_string())?;
                    let text = attribute.unescape_value().map_err(|error| error.to_string())?.into_owned();
                    match attribute.key.as_ref() {
                        b"name" => self.name = Some(text),
                        b"value" => self.value = Some(text),
                        b"final" => self.is_final = text.trim() == "true",
                        _ => {}
                    }
                }
            }
            (1, _) => return Err(format!("<{name}> in <configuration>, expected <property>")),
            _ => {}
        }
        self.text.clear();
        self.open.push(name);
        Ok(())
    }

    fn end(&mut self) -> std::result::Result<(), String> {
        let tag = self.open.pop().ok_or("an end tag without a start tag")?;
        let text = std::mem::take(&mut self.text);
        match (self.open.len(), tag.as_str()) {
            (0, _) => self.closed = true,
            (1, "property") => {
                let name = self.name.take().ok_or("a <property> without <name>")?;
                // HBase ignores a property without a value.
                if let Some(value) = self.value.take() {
                    self.properties.push(Property { name, value, is_final: self.is_final });
                }
            }
            (2, "name") => self.name = Some(text.trim().to_owned()),
            (2, "value") => self.value = Some(text),
            (2, "final") => self.is_final = text.trim() == "true",
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_property_is_read() {
        let xml = "<?xml version=\"1.0\"?><!-- a comment --><configuration>
            <property><name> a </name><value>1 &lt; 2 &#38; 3</value><description>words</description></property>
            <property><name>b</name><value><![CDATA[<raw>]]></value><final>true</final></property>
            <property name=\"c\" value=\"x &amp; y\"/>
            <property><name>d</name><value></value></property>
            <property><name>e</name></property>
            </configuration>";
        let read = read("site.xml", xml).expect("well-formed");
        let told: Vec<_> = read.iter().map(|p| (p.name.as_str(), p.value.as_str(), p.is_final)).collect();
        assert_eq!(
            told,
            [("a", "1 < 2 & 3", false), ("b", "<raw>", true), ("c", "x & y", false), ("d", "", false)]
        );
    }

    #[test]
    fn errors_name_the_problem_and_its_place() {
        for (xml, problem) in [
            ("<site/>", "expected <configuration>"),
            ("<configuration><property><value>1</value></property></configuration>", "without <name>"),
            ("<configuration><name>a</name></configuration>", "expected <property>"),
            ("<configuration><property>", "is not closed"),
            ("", "there is no <configuration>"),
            ("<!-- nothing -->", "there is no <configuration>"),
            ("hbase.wal.hsync=false", "text outside of"),
            ("<configuration/>and more", "text outside of"),
            ("<configuration/><configuration/>", "a second <configuration>"),
            ("<configuration></property>", "site.xml at byte"),
            ("<configuration><xi:include href=\"x\"/></configuration>", "<include> is not supported"),
            (
                "<configuration><property><name>a</name><value>&x;</value></property></configuration>",
                "&x; is not a known",
            ),
        ] {
            let error = read("site.xml", xml).expect_err(xml).to_string();
            assert!(error.contains(problem) && error.starts_with("site.xml at byte"), "{error}");
        }
        let bom = "\u{feff}<?xml version=\"1.0\"?>\n<configuration/>\n";
        assert!(read("site.xml", bom).expect("no property").is_empty());
    }
}
