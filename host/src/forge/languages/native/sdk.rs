//! Which files does a plugin in C, C++ or Zig include?

use crate::forge::language::Language;
use crate::store::Digest;

/// The C SDK, carried in this program; C++ is built on it.
const C: &[(&str, &str)] = &[
    ("abi.c", include_str!("../../../../../plugins/sdk-c/abi.c")),
    ("json.c", include_str!("../../../../../plugins/sdk-c/json.c")),
    ("tandem.h", include_str!("../../../../../plugins/sdk-c/tandem.h")),
    ("tandem_export.h", include_str!("../../../../../plugins/sdk-c/tandem_export.h")),
    ("text.c", include_str!("../../../../../plugins/sdk-c/text.c")),
];
const CPP: &[(&str, &str)] = &[
    ("libcpp.cpp", include_str!("../../../../../plugins/sdk-cpp/libcpp.cpp")),
    ("tandem.hpp", include_str!("../../../../../plugins/sdk-cpp/tandem.hpp")),
    ("tandem_export.hpp", include_str!("../../../../../plugins/sdk-cpp/tandem_export.hpp")),
];
const ZIG: &[(&str, &str)] = &[
    ("abi.zig", include_str!("../../../../../plugins/sdk-zig/abi.zig")),
    ("imports.zig", include_str!("../../../../../plugins/sdk-zig/imports.zig")),
    ("json.zig", include_str!("../../../../../plugins/sdk-zig/json.zig")),
    ("root.zig", include_str!("../../../../../plugins/sdk-zig/root.zig")),
    ("tandem.zig", include_str!("../../../../../plugins/sdk-zig/tandem.zig")),
];

/// Name and text of each file that `language` needs.
pub(super) fn files(language: Language) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (one, two): (&[_], &[_]) = match language {
        Language::Zig => (ZIG, &[]),
        Language::Cpp => (C, CPP),
        _ => (C, &[]),
    };
    one.iter().chain(two).copied()
}

/// A line of a file of the SDK, which a message names.
pub(super) fn line(file: &str, number: u32) -> Option<&'static str> {
    let (_, text) = C.iter().chain(CPP).chain(ZIG).find(|(name, _)| *name == file)?;
    text.lines().nth(usize::try_from(number).ok()?.checked_sub(1)?)
}

pub(super) fn digest(language: Language) -> Digest {
    let mut bytes = Vec::new();
    for (name, text) in files(language) {
        bytes.extend(format!("{name} {}\n{text}", text.len()).into_bytes());
    }
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_sdks_is_carried() {
        for (folder, carried) in [("sdk-c", C), ("sdk-cpp", CPP), ("sdk-zig", ZIG)] {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").join(folder);
            let on_disk: BTreeSet<String> = std::fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| !name.ends_with(".txt") && !name.ends_with(".md"))
                .collect();
            let carried: BTreeSet<String> = carried.iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(on_disk, carried, "{folder}");
        }
    }

    #[test]
    fn the_pinned_version_is_the_one_that_is_looked_for() {
        let lock = include_str!("../../../../../plugins/sdk-zig/requirements.txt");
        let pin = format!("ziglang=={} \\", super::super::toolchain::VERSION);
        assert!(lock.lines().any(|line| line == pin));
    }
}
