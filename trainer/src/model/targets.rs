//! Which linear maps of a policy get an adapter?

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ModelConfig;

/// Every linear map of a layer, by its name in Hugging Face; `*` is the number of an expert.
const MAPS: [&str; 11] = [
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "mlp.experts.*.gate_proj",
    "mlp.experts.*.up_proj",
    "mlp.experts.*.down_proj",
    "mlp.gate",
];
/// The first of the network that every token uses, of those of experts, and the router.
const DENSE: usize = 4;
const EXPERTS: usize = 7;
const ROUTER: usize = 10;
/// What PEFT and we call all of them.
const ALL: &str = "all-linear";

/// A set of linear maps, named as PEFT names its `target_modules`: a name stands for every map whose
/// own name ends with it, so `gate_proj` is that of the network of a layer and those of experts,
/// and `mlp.gate_proj` the former alone. `all-linear` is all of them; the head is none.
///
/// The default is q, k, v, o, gate, up and down, without experts and routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoraTargets(u16);

/// Names that adapters cannot be put on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TargetError {
    #[error("`{name}` is no linear map that an adapter goes on\nhelp: those are {known}, or `{ALL}`")]
    Unknown { name: String, known: String },
    #[error("no linear map is named that an adapter goes on\nhelp: those are {known}, or `{ALL}`")]
    Empty { known: String },
}

impl Default for LoraTargets {
    fn default() -> Self {
        Self((1 << EXPERTS) - 1)
    }
}

impl LoraTargets {
    /// All linear maps.
    pub fn all() -> Self {
        Self((1 << MAPS.len()) - 1)
    }

    /// Those that names stand for.
    ///
    /// # Errors
    /// If a name stands for none, or no name is given.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, TargetError> {
        let mut all = Self(0);
        for name in names {
            let found = match name {
                ALL => Self::all().0,
                name => bits(|map| MAPS[map] == name || MAPS[map].ends_with(&format!(".{name}"))),
            };
            if found == 0 || name.is_empty() {
                let known = short_names(&MAPS.map(short).map(String::from));
                return Err(TargetError::Unknown { name: name.to_string(), known });
            }
            all.0 |= found;
        }
        if all.0 == 0 {
            return Err(TargetError::Empty { known: short_names(&MAPS.map(short).map(String::from)) });
        }
        Ok(all)
    }

    /// Those that an adapter's tensors (PEFT's names) belong to.
    pub(crate) fn of_tensors<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self(0);
        for name in names {
            let Some((_, in_layer)) = name.split_once(".layers.") else { continue };
            let module = in_layer.split(".lora_").next().unwrap_or_default();
            // Without the number of the layer, and with any number of an expert.
            let parts = module.split('.').skip(1);
            let parts = parts.map(|part| if part.parse::<usize>().is_ok() { "*" } else { part });
            let module = parts.collect::<Vec<_>>().join(".");
            all.0 |= bits(|map| MAPS[map] == module);
        }
        all
    }

    /// Whether it holds a part of a projection, which is named within its layer, or within its expert.
    pub(crate) fn has(self, part: &str) -> bool {
        let own = |map: usize| match part.contains('.') {
            true => MAPS[map] == part,
            false => MAPS[map].strip_prefix("mlp.experts.*.") == Some(part),
        };
        self.0 & bits(own) != 0
    }

    /// Refuses a set of which a policy of this shape lacks a part.
    ///
    /// # Errors
    /// If there is none of a map that was named, such as a router in a policy without experts.
    pub fn check(self, config: &ModelConfig) -> Result<(), TargetError> {
        if self == Self::default() || self == Self::all() {
            return Ok(());
        }
        let here = present(config);
        for map in (0..MAPS.len()).filter(|map| self.0 & (1 << map) != 0) {
            let alike = bits(|other| short(MAPS[other]) == short(MAPS[map]));
            if self.0 & alike & here == 0 {
                let names: Vec<String> = Self(here).names(config);
                let name = short(MAPS[map]).to_string();
                return Err(TargetError::Unknown { name, known: short_names(&names) });
            }
        }
        Ok(())
    }

    /// PEFT's names for the maps of the set that a policy of this shape has.
    pub(crate) fn names(self, config: &ModelConfig) -> Vec<String> {
        let here = present(config);
        let mut names = Vec::new();
        for map in (0..MAPS.len()).filter(|map| self.0 & here & (1 << map) != 0) {
            let alike = bits(|other| short(MAPS[other]) == short(MAPS[map])) & here;
            // The short name stands for experts too, so it is used where that is meant.
            let name = match self.0 & alike == alike || map >= EXPERTS {
                true => short(MAPS[map]),
                false => MAPS[map],
            };
            if !names.iter().any(|known| known == name) {
                names.push(name.to_string());
            }
        }
        names
    }

    /// Whether it is the default.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The set of maps with a property.
fn bits(has: impl Fn(usize) -> bool) -> u16 {
    (0..MAPS.len()).filter(|map| has(*map)).map(|map| 1 << map).sum()
}

/// The maps of a policy of this shape.
fn present(config: &ModelConfig) -> u16 {
    let layers = || (0..config.num_hidden_layers).map(|layer| config.experts_of(layer).is_some());
    let (experts, dense) = (layers().any(|has| has), layers().any(|has| !has));
    bits(|map| match map {
        DENSE..EXPERTS => dense,
        EXPERTS..=ROUTER => experts,
        _ => true,
    })
}

/// The last part of a name.
fn short(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or(name)
}

fn short_names(names: &[String]) -> String {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let name = format!("`{name}`");
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all.join(", ")
}

impl fmt::Display for LoraTargets {
    /// Names that stand for the set.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.written().join(","))
    }
}

impl LoraTargets {
    fn written(self) -> Vec<&'static str> {
        if self == Self::all() {
            return vec![ALL];
        }
        let mut names: Vec<&str> = Vec::new();
        for map in (0..MAPS.len()).filter(|map| self.0 & (1 << map) != 0) {
            let alike = bits(|other| short(MAPS[other]) == short(MAPS[map]));
            let name = if self.0 & alike == alike { short(MAPS[map]) } else { MAPS[map] };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl Serialize for LoraTargets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LoraTargets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// One name, or several.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Names {
            One(String),
            Several(Vec<String>),
        }
        let names = match Names::deserialize(deserializer)? {
            Names::One(name) => vec![name],
            Names::Several(names) => names,
        };
        Self::named(names.iter().map(String::as_str)).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Family, tiny_of};

    fn named(names: &[&str]) -> LoraTargets {
        LoraTargets::named(names.iter().copied()).unwrap()
    }

    #[test]
    fn names_stand_for_what_they_stand_for_in_peft() {
        let check = |names: &[&str], parts: &[&str]| {
            let all = ["self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "gate_proj", "mlp.gate"];
            let found: Vec<_> = all.into_iter().filter(|part| named(names).has(part)).collect();
            assert_eq!(found, parts, "{names:?}");
        };
        check(&["q_proj"], &["self_attn.q_proj"]);
        check(&["self_attn.q_proj", "o_proj"], &["self_attn.q_proj", "self_attn.o_proj"]);
        check(&["gate_proj"], &["mlp.gate_proj", "gate_proj"]);
        check(&["mlp.gate_proj"], &["mlp.gate_proj"]);
        check(&["gate"], &["mlp.gate"]);
        check(
            &["all-linear"],
            &["self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "gate_proj", "mlp.gate"],
        );
    }

    #[test]
    fn a_wrong_name_is_refused_with_the_right_ones() {
        let error = LoraTargets::named(["q_proj", "qproj"]).unwrap_err().to_string();
        expect_test::expect![[r#"
            `qproj` is no linear map that an adapter goes on
            help: those are `q_proj`, `k_proj`, `v_proj`, `o_proj`, `gate_proj`, `up_proj`, `down_proj`, `gate`, or `all-linear`"#]]
        .assert_eq(&error);
        let error = named(&["q_proj", "gate"]).check(&tiny_of(Family::Llama)).unwrap_err().to_string();
        expect_test::expect![[r#"
            `gate` is no linear map that an adapter goes on
            help: those are `q_proj`, `k_proj`, `v_proj`, `o_proj`, `gate_proj`, `up_proj`, `down_proj`, or `all-linear`"#]]
        .assert_eq(&error);
        assert!(LoraTargets::named([]).is_err() && LoraTargets::named([""]).is_err());
        for family in Family::ALL {
            for targets in [LoraTargets::default(), LoraTargets::all(), named(&["up_proj"])] {
                targets.check(&tiny_of(family)).unwrap();
            }
        }
    }

    #[test]
    fn a_set_is_written_and_read_back() {
        for (names, written) in [
            (&["q_proj", "v_proj"][..], r#"["q_proj","v_proj"]"#),
            (&["mlp.up_proj"], r#"["mlp.up_proj"]"#),
            (&["up_proj", "gate"], r#"["up_proj","gate"]"#),
            (&["all-linear"], r#"["all-linear"]"#),
        ] {
            let text = serde_json::to_string(&named(names)).unwrap();
            assert_eq!(text.replace("self_attn.", ""), written);
            assert_eq!(serde_json::from_str::<LoraTargets>(&text).unwrap(), named(names));
        }
        let default = serde_json::to_string(&LoraTargets::default()).unwrap();
        assert_eq!(serde_json::from_str::<LoraTargets>(&default).unwrap(), LoraTargets::default());
        assert_eq!(serde_json::from_str::<LoraTargets>(r#""all-linear""#).unwrap(), LoraTargets::all());
        assert!(serde_json::from_str::<LoraTargets>(r#"["lm_head"]"#).is_err());
    }

    #[test]
    fn peft_is_told_the_names_that_its_own_rule_reads_back() {
        let usual = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
        assert_eq!(LoraTargets::default().names(&tiny_of(Family::Llama)), usual);
        // A layer of the tiny one is dense, the other has experts: the short name would mean both.
        let experts = tiny_of(Family::Qwen3Moe);
        for targets in [LoraTargets::default(), LoraTargets::all(), named(&["gate", "down_proj"])] {
            let names = targets.names(&experts);
            let back = named(&names.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(back.0 & present(&experts), targets.0 & present(&experts), "{names:?}");
        }
    }
}
