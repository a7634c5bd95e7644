//! What does a WIT file say? Its interfaces as text that can be shown and compared.

use wit_parser::{
    Docs, Function, InterfaceId, PackageId, Resolve, Type, TypeDefKind, TypeId, TypeOwner, WorldItem,
};

/// A contract that was read from WIT, with the world `plugin`.
pub struct Contract {
    resolve: Resolve,
    package: PackageId,
}

/// A type or a function of an interface.
pub struct Item {
    pub name: String,
    /// As WIT without comments: what two versions are compared by.
    pub bare: String,
    /// As WIT with comments.
    pub shown: String,
}

impl Contract {
    /// Reads a WIT file.
    pub fn parse(text: &str) -> Self {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("harness.wit", text).unwrap_or_else(|error| panic!("{error:#}"));
        Self { resolve, package }
    }

    /// The version of the package.
    pub fn version(&self) -> String {
        let name = &self.resolve.packages[self.package].name;
        name.version.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// The names of all interfaces, in the order of the file.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.resolve.packages[self.package].interfaces.keys().map(String::as_str)
    }

    /// Interfaces that a plugin may export, in the order of the world.
    pub fn exports(&self) -> Vec<&str> {
        let world = self.world();
        self.names(self.resolve.worlds[world].exports.values())
    }

    /// Interfaces that a plugin may import and that have functions: the capabilities.
    pub fn capabilities(&self) -> Vec<&str> {
        let world = self.world();
        let mut names = self.names(self.resolve.worlds[world].imports.values());
        names.retain(|name| !self.resolve.interfaces[self.interface(name)].functions.is_empty());
        names
    }

    /// The comment of an interface.
    pub fn docs(&self, interface: &str) -> String {
        text(&self.resolve.interfaces[self.interface(interface)].docs)
    }

    /// The types and functions of an interface, in the order of the file.
    pub fn items(&self, interface: &str) -> Vec<Item> {
        let found = &self.resolve.interfaces[self.interface(interface)];
        let types = found.types.iter().map(|(name, id)| self.type_item(name, *id));
        let functions = found.functions.values().map(|function| self.function_item(function));
        types.chain(functions).collect()
    }

    fn world(&self) -> wit_parser::WorldId {
        self.resolve.packages[self.package].worlds["plugin"]
    }

    fn interface(&self, name: &str) -> InterfaceId {
        let interfaces = &self.resolve.packages[self.package].interfaces;
        *interfaces.get(name).unwrap_or_else(|| panic!("the contract has no interface `{name}`"))
    }

    fn names<'a>(&'a self, items: impl Iterator<Item = &'a WorldItem>) -> Vec<&'a str> {
        let name = |item: &WorldItem| match item {
            WorldItem::Interface { id, .. } => self.resolve.interfaces[*id].name.as_deref(),
            _ => None,
        };
        items.map(|item| name(item).expect("the world has interfaces only")).collect()
    }

    fn type_item(&self, name: &str, id: TypeId) -> Item {
        let def = &self.resolve.types[id];
        let block = |word: &str, lines: Vec<(&Docs, String)>| {
            let (mut bare, mut shown) = (format!("{word} {name} {{\n"), comment(&def.docs, ""));
            shown.push_str(&bare);
            for (docs, line) in lines {
                shown.push_str(&format!("{}    {line},\n", comment(docs, "    ")));
                bare.push_str(&format!("    {line},\n"));
            }
            Item { name: name.to_owned(), bare: bare + "}", shown: shown + "}" }
        };
        match &def.kind {
            TypeDefKind::Record(record) => block(
                "record",
                record
                    .fields
                    .iter()
                    .map(|f| (&f.docs, format!("{}: {}", f.name, self.name_of(&f.ty))))
                    .collect(),
            ),
            TypeDefKind::Variant(variant) => block(
                "variant",
                variant
                    .cases
                    .iter()
                    .map(|case| match &case.ty {
                        Some(ty) => (&case.docs, format!("{}({})", case.name, self.name_of(ty))),
                        None => (&case.docs, case.name.clone()),
                    })
                    .collect(),
            ),
            TypeDefKind::Enum(of) => {
                block("enum", of.cases.iter().map(|case| (&case.docs, case.name.clone())).collect())
            }
            TypeDefKind::Type(Type::Id(of)) => {
                let from = match self.resolve.types[*of].owner {
                    TypeOwner::Interface(id) => self.resolve.interfaces[id].name.clone(),
                    _ => None,
                };
                let bare = format!("use {}.{{{name}}};", from.unwrap_or_default());
                Item { name: name.to_owned(), shown: bare.clone(), bare }
            }
            other => panic!("the contract has a new kind of type, {}: teach it here", other.as_str()),
        }
    }

    fn function_item(&self, function: &Function) -> Item {
        let parameters: Vec<_> =
            function.params.iter().map(|p| format!("{}: {}", p.name, self.name_of(&p.ty))).collect();
        let result = function.result.as_ref().map(|ty| format!(" -> {}", self.name_of(ty)));
        let bare =
            format!("{}: func({}){};", function.name, parameters.join(", "), result.unwrap_or_default());
        let shown = comment(&function.docs, "") + &bare;
        Item { name: function.name.clone(), bare, shown }
    }

    fn name_of(&self, ty: &Type) -> String {
        let id = match ty {
            Type::Id(id) => *id,
            Type::Bool => return "bool".into(),
            Type::U8 => return "u8".into(),
            Type::U32 => return "u32".into(),
            Type::U64 => return "u64".into(),
            Type::S32 => return "s32".into(),
            Type::String => return "string".into(),
            other => panic!("the contract has a new basic type, {other:?}: teach it here"),
        };
        let def = &self.resolve.types[id];
        if let Some(name) = &def.name {
            return name.clone();
        }
        let part = |ty: &Option<Type>| ty.as_ref().map_or("_".into(), |ty| self.name_of(ty));
        match &def.kind {
            TypeDefKind::List(of) => format!("list<{}>", self.name_of(of)),
            TypeDefKind::Option(of) => format!("option<{}>", self.name_of(of)),
            TypeDefKind::Result(of) => format!("result<{}, {}>", part(&of.ok), part(&of.err)),
            other => panic!("the contract has a new kind of type, {}: teach it here", other.as_str()),
        }
    }
}

/// What of `released` a plugin may rely on and does not find in `now`. Types and functions of a
/// released interface are frozen; the contract grows by new interfaces. Comments may change.
///
/// `wit_component::semver_check` asks another question: it takes a new export for a break, since
/// in general a component has to export its whole world. Here every export is optional.
pub fn breaks(released: &Contract, now: &Contract) -> Vec<String> {
    let mut found = Vec::new();
    let there: Vec<_> = now.interfaces().collect();
    for interface in released.interfaces() {
        if !there.contains(&interface) {
            found.push(format!("`{interface}` is gone"));
            continue;
        }
        let (old, new) = (released.items(interface), now.items(interface));
        for item in &old {
            match new.iter().find(|other| other.name == item.name) {
                None => found.push(format!("`{interface}.{}` is gone", item.name)),
                Some(other) if other.bare != item.bare => {
                    found.push(format!(
                        "`{interface}.{}` was\n{}\nand is\n{}",
                        item.name, item.bare, other.bare
                    ));
                }
                Some(_) => {}
            }
        }
        for item in new.iter().filter(|item| !old.iter().any(|other| other.name == item.name)) {
            found.push(format!("`{interface}.{}` is new in a released interface", item.name));
        }
    }
    for (what, old, new) in [
        ("exported", released.exports(), now.exports()),
        ("imported", released.capabilities(), now.capabilities()),
    ] {
        for name in old.into_iter().filter(|name| there.contains(name) && !new.contains(name)) {
            found.push(format!("`{name}` can no longer be {what}"));
        }
    }
    found
}

fn text(docs: &Docs) -> String {
    docs.contents.as_deref().unwrap_or_default().trim().to_owned()
}

/// A comment as lines of WIT.
fn comment(docs: &Docs, indent: &str) -> String {
    text(docs).lines().map(|line| format!("{indent}/// {line}\n")).collect()
}
