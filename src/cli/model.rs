//! `tandem model`: which models are known, and are they here?

use anyhow::Result;
use clap::Subcommand;

use super::Exit;
use crate::campaign;

#[derive(Subcommand)]
pub enum ModelCommand {
    /// Fetch a known model and check its SHA-256.
    Fetch {
        /// A name of `tandem model list`.
        name: String,
    },
    /// List the known models.
    List,
}

pub fn run(command: ModelCommand) -> Result<Exit> {
    match command {
        ModelCommand::Fetch { name } => {
            let path = campaign::fetch(&name)?;
            println!("{}", path.display());
        }
        ModelCommand::List => {
            for model in campaign::KNOWN {
                let here = if campaign::resolve(model.name).is_ok() { "here" } else { "not fetched" };
                println!("{}  {} ({}), {here}", model.name, model.description, model.licence);
            }
        }
    }
    Ok(Exit::Done)
}
