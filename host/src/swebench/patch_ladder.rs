//! By which commands is a patch applied to the work tree? Each is tried in order, in
//! the work tree, with the path of the patch after it; the first that ends with 0 wins.

/// The commands, in order.
pub const APPLY_COMMANDS: [&str; 4] = [
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
];

/// Run before each command but the first: a failed one leaves parts behind.
pub const RESET_COMMAND: &str = "git checkout -- . ; git clean -fd";

/// Run when all failed: where this ends with 0, the patch is in the tree already.
pub const REVERSE_CHECK: &str = "git apply --check --reverse";
