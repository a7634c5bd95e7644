//! Tandem's host: runs plugins, harness generations, the agent loop, workspaces,
//! task sets and rollouts. It knows nothing of gradients.
//!
//! A plugin is a WebAssembly component of the contract `tandem:harness`: it hooks points of an
//! agent's loop, or brings tools. To run one it is *admitted* once, which checks, compiles and
//! calls it on trial, and then *instantiated* for each episode:
//!
//! ```
//! use std::sync::Arc;
//! use pollster::block_on; // calls and admission need no async runtime
//! use tandem_host::forge::{Forge, ForgeConfig, Source};
//! use tandem_host::plugin::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // From Rust source; bytes of a component in any language do as well.
//! let text = r#"
//!     use tandem_plugin::*;
//!     pub struct Plugin;
//!     impl OnModelCall for Plugin {
//!         fn on_model_call(context: Context) -> Option<ModelCallEffect> {
//!             (context.turn == 3).then(|| ModelCallEffect::Note("Run the tests.".into()))
//!         }
//!     }
//!     export_on_model_call!(Plugin);
//! "#;
//! let cache = tempfile::tempdir()?;
//! let forge = Forge::new(ForgeConfig::new(cache.path()))?;
//! let component = forge.build(&Source::File { name: "hook.rs".into(), text: text.into() })?.component;
//!
//! let engine = Engine::new(PluginLimits::default())?;
//! let options = AdmissionOptions::default();
//! let admitted = block_on(admit(&engine, &component, &Grants::none(), &options))?;
//! assert_eq!(admitted.exports(), [HookPoint::OnModelCall]);
//!
//! let config = InstanceConfig { settings: "{}".into(), seed: 1, workspace: Arc::new(NoWorkspace) };
//! let mut instance = Instance::new(&admitted, config);
//! let third = Context { turn: 3, ..Context::default() };
//! let effect = block_on(instance.on_model_call(&third))?;
//! assert_eq!(effect, Some(NoteOrStop::Note("Run the tests.".into())));
//! # Ok(())
//! # }
//! ```
//!
//! Several plugins in order, with hot swap under running episodes, are a [`harness`]:
//! [`harness::Generation`] is built off the path, [`harness::Generations`] publishes it with one
//! atomic store, and a [`harness::Lease`] keeps it for an episode.
//!
//! Rooms, from those that hold data to those that act: [`store`], [`policy`], [`swebench`],
//! [`plugin`], [`harness`], [`forge`], [`workspace`], [`cases`], [`task`],
//! [`dataset`], [`mutate`], [`agent`], [`rollout`]. See ARCHITECTURE.md for what each one deliberately does not do.

pub mod agent;
pub mod cases;
pub mod dataset;
pub mod forge;
pub mod harness;
pub mod mutate;
pub mod plugin;
pub mod policy;
pub mod rollout;
pub mod store;
pub mod swebench;
pub mod task;
pub mod workspace;
