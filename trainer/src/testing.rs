//! Where do the tests find real weights?

use std::path::PathBuf;

/// The models of the reference values.
pub(crate) const SMOLLM2: &str = "smollm2-135m";
pub(crate) const GEMMA3: &str = "gemma3-270m";

/// The weights that `tandem model fetch MODEL` put into the cache. Without them the
/// test says that it does nothing, unless `TANDEM_REQUIRE_WEIGHTS=1` makes that a failure.
pub(crate) fn weights(model: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let models = variable("TANDEM_HOME").map(|home| home.join("models")).or_else(|| {
        let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        cache.map(|cache| cache.join("tandem/models"))
    });
    let path = models?.join(format!("{model}.gguf"));
    if path.exists() {
        return Some(path);
    }
    let absent = format!(
        "the weights of {model} are not at {}; `tandem model fetch {model}` gets them",
        path.display()
    );
    assert!(std::env::var_os("TANDEM_REQUIRE_WEIGHTS").is_none(), "{absent}");
    eprintln!("SKIPPED: {absent}");
    None
}
