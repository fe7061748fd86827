//! How cells travel beside messages.

/// The layout of cells in a cell block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// No cell blocks: cells are protobuf inside the messages.
    #[default]
    None,
    /// `KeyValueCodec`: length and KeyValue, without tags.
    KeyValue,
    /// `KeyValueCodecWithTags`: the same with tags.
    KeyValueWithTags,
}

impl Codec {
    /// The codec of a Java class.
    pub fn of_class(class: &str) -> Option<Codec> {
        match class {
            "" => Some(Codec::None),
            "org.apache.hadoop.hbase.codec.KeyValueCodec" => Some(Codec::KeyValue),
            "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags" => Some(Codec::KeyValueWithTags),
            _ => None,
        }
    }

    /// The Java class of the codec; empty for none.
    pub fn class(self) -> &'static str {
        match self {
            Codec::None => "",
            Codec::KeyValue => "org.apache.hadoop.hbase.codec.KeyValueCodec",
            Codec::KeyValueWithTags => "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags",
        }
    }
}

/// What whole cell blocks are compressed with, by a codec of Hadoop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// Not at all.
    #[default]
    None,
    /// One gzip stream.
    Gzip,
    /// Snappy in Hadoop's blocks.
    Snappy,
    /// LZ4 in Hadoop's blocks.
    Lz4,
}
