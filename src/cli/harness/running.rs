//! Which running server is to serve what was made current, and did it?

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::place::Place;
use crate::cli::Exit;
use crate::serve::{Ask, ask};

/// A home, and the server that serves from it, if one was named.
pub struct Running {
    pub place: Place,
    socket: Option<PathBuf>,
}

impl Running {
    /// Asks the server for its home, before anything is published.
    ///
    /// # Errors
    /// When no server answers, or it has another home than was named.
    pub async fn find(socket: Option<&Path>, place: Place) -> Result<Self> {
        let Some(socket) = socket else { return Ok(Self { place, socket: None }) };
        let (home, ..) = ask(socket, Ask::Status).await?;
        Ok(Self { place: place.of_server(home)?, socket: Some(socket.to_owned()) })
    }

    /// Tells the server, unless nothing was published.
    ///
    /// # Errors
    /// When it goes on with what it served. The publication stands.
    pub async fn swap(&self, published: Exit) -> Result<Exit> {
        let Some(socket) = self.socket.as_ref().filter(|_| published == Exit::Done) else {
            return Ok(published);
        };
        let (_, harness, sessions) = ask(socket, Ask::Follow).await.context(
            "the harness is current in the home, and the server was not swapped\nhelp: mend what it says and do it again, or go back with `tandem harness rollback`",
        )?;
        // On standard error: what is told of the publication may be JSON.
        eprintln!(
            "the server gives {harness} to new sessions; {} had been open and keep what they have",
            match sessions {
                1 => "1 session".to_owned(),
                count => format!("{count} sessions"),
            }
        );
        Ok(published)
    }
}
