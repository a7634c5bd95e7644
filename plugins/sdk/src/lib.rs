//! Write a Tandem tool or hook in Rust.
//!
//! A plugin is a type that implements the trait of each hook point it wants, and
//! names it in that point's macro:
//!
//! ```
//! use tandem_plugin::*;
//!
//! pub struct Plugin;
//!
//! impl OnModelCall for Plugin {
//!     fn on_model_call(context: Context) -> Option<ModelCallEffect> {
//!         (context.turn == 3).then(|| ModelCallEffect::Note("Run the tests.".into()))
//!     }
//! }
//!
//! export_on_model_call!(Plugin);
//! ```
//!
//! What is exported is what the plugin subscribes to. What it uses of [`log`],
//! [`clock`], [`random`], [`state`], [`settings`], [`workspace`] and [`exec`] is
//! what it asks for: each is a grant. Same input must give same output.
//!
//! This crate has no dependencies, so that the forge can build it in a second.

#[doc(hidden)]
pub mod bindings;
mod capabilities;
pub mod json;
#[doc(hidden)]
pub mod rt;
pub mod shell;

pub use bindings::exports::tandem::harness as points;
pub use bindings::tandem::harness::types::{
    Budget, Context, PatchCandidate, PatchSource, ToolCall, ToolResult, ToolStatus, Usage, WorkTree,
};
pub use capabilities::{clock, exec, failure, log, random, settings, state, workspace};

pub use points::observe::Guest as Observe;
pub use points::on_choose_patch::Guest as OnChoosePatch;
pub use points::on_episode_start::Guest as OnEpisodeStart;
pub use points::on_format_error::{FormatError, Guest as OnFormatError};
pub use points::on_limit::{Guest as OnLimit, Limit};
pub use points::on_loop::{Effect as LoopEffect, Guest as OnLoop, Repetition};
pub use points::on_model_call::{Effect as ModelCallEffect, Guest as OnModelCall};
pub use points::on_submit::{Guest as OnSubmit, Submission};
pub use points::on_tool_call::{Effect as ToolCallEffect, Guest as OnToolCall};
pub use points::on_tool_result::{Effect as ToolResultEffect, Guest as OnToolResult};
pub use points::settings_schema::Guest as SettingsSchema;
pub use points::tools::{Content, Guest as Tools, Image, ToolDefinition, ToolOutput};

impl ToolOutput {
    /// A result of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], structured: None, is_error: false }
    }

    /// A failure that the policy reads. Say what to do instead.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

impl ToolCall {
    /// The text argument under `key`.
    pub fn text(&self, key: &str) -> Option<String> {
        json::parse(&self.arguments).ok()?.get(key)?.as_str().map(str::to_owned)
    }

    /// The command line of a call of `bash`; none of a call of another tool.
    pub fn command(&self) -> Option<String> {
        if self.name == "bash" { self.text("command") } else { None }
    }
}

impl PatchCandidate {
    /// Whether it has no content.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// Exports a type's [`Tools`] as the interface `tools`.
#[macro_export]
macro_rules! export_tools {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_tools_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::tools
        );
    };
}

/// Exports a type's [`SettingsSchema`] as the interface `settings-schema`.
#[macro_export]
macro_rules! export_settings_schema {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_settings_schema_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::settings_schema
        );
    };
}

/// Exports a type's [`OnEpisodeStart`] as the interface `on-episode-start`.
#[macro_export]
macro_rules! export_on_episode_start {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_episode_start_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_episode_start
        );
    };
}

/// Exports a type's [`OnModelCall`] as the interface `on-model-call`.
#[macro_export]
macro_rules! export_on_model_call {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_model_call_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_model_call
        );
    };
}

/// Exports a type's [`OnFormatError`] as the interface `on-format-error`.
#[macro_export]
macro_rules! export_on_format_error {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_format_error_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_format_error
        );
    };
}

/// Exports a type's [`OnToolCall`] as the interface `on-tool-call`.
#[macro_export]
macro_rules! export_on_tool_call {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_tool_call_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_tool_call
        );
    };
}

/// Exports a type's [`OnToolResult`] as the interface `on-tool-result`.
#[macro_export]
macro_rules! export_on_tool_result {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_tool_result_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_tool_result
        );
    };
}

/// Exports a type's [`OnLoop`] as the interface `on-loop`.
#[macro_export]
macro_rules! export_on_loop {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_loop_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_loop
        );
    };
}

/// Exports a type's [`OnSubmit`] as the interface `on-submit`.
#[macro_export]
macro_rules! export_on_submit {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_submit_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_submit
        );
    };
}

/// Exports a type's [`OnChoosePatch`] as the interface `on-choose-patch`.
#[macro_export]
macro_rules! export_on_choose_patch {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_choose_patch_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_choose_patch
        );
    };
}

/// Exports a type's [`OnLimit`] as the interface `on-limit`.
#[macro_export]
macro_rules! export_on_limit {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_on_limit_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::on_limit
        );
    };
}

/// Exports a type's [`Observe`] as the interface `observe`.
#[macro_export]
macro_rules! export_observe {
    ($plugin:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::__export_tandem_harness_observe_0_1_0_cabi!(
            $plugin with_types_in $crate::bindings::exports::tandem::harness::observe
        );
    };
}
