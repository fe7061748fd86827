//! Lists descriptors as a flat map from a type's full name to its fields or values, each described in one line that can
//! be compared.

use std::collections::BTreeMap;

use prost_types::field_descriptor_proto::{Label, Type as FieldType};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    Enum,
}

#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    /// The schema file that declares the type; not compared.
    pub(crate) file: String,
    /// Description of each field or enum value by name, such as `required uint64 = 1` or `3`.
    pub(crate) members: BTreeMap<String, String>,
}

/// Returns all types of the package `hbase.pb`, and those of files without a package.
pub(crate) fn flatten(set: &FileDescriptorSet) -> BTreeMap<String, Type> {
    let mut types = BTreeMap::new();
    for file in set.file.iter().filter(|file| matches!(file.package(), "hbase.pb" | "")) {
        for message in &file.message_type {
            add_message(file.package(), file.name(), message, &mut types);
        }
        for values in &file.enum_type {
            add_enum(file.package(), file.name(), values, &mut types);
        }
    }
    types
}

fn add_message(scope: &str, file: &str, message: &DescriptorProto, types: &mut BTreeMap<String, Type>) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        add_message(&name, file, nested, types);
    }
    for values in &message.enum_type {
        add_enum(&name, file, values, types);
    }
    let members = message.field.iter().map(|field| (field.name().to_owned(), line(field))).collect();
    insert(name, Type { kind: Kind::Message, file: file.to_owned(), members }, types);
}

fn add_enum(scope: &str, file: &str, values: &EnumDescriptorProto, types: &mut BTreeMap<String, Type>) {
    let members =
        values.value.iter().map(|value| (value.name().to_owned(), value.number().to_string())).collect();
    insert(
        format!("{scope}.{}", values.name()),
        Type { kind: Kind::Enum, file: file.to_owned(), members },
        types,
    );
}

fn insert(name: String, entry: Type, types: &mut BTreeMap<String, Type>) {
    assert!(!types.contains_key(&name), "{name} is in two schemas");
    types.insert(name, entry);
}

fn line(field: &FieldDescriptorProto) -> String {
    let label = match field.label() {
        Label::Optional => "optional",
        Label::Required => "required",
        Label::Repeated => "repeated",
    };
    let kind = match field.r#type() {
        FieldType::Message | FieldType::Enum => field.type_name().to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    let mut line = format!("{label} {kind} = {}", field.number());
    if let Some(default) = &field.default_value {
        line.push_str(&format!(" default {default:?}"));
    }
    if field.options.as_ref().is_some_and(|options| options.packed()) {
        line.push_str(" packed");
    }
    line
}
