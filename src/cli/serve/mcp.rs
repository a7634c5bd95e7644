//! `tandem serve mcp`: the tools of a harness for agents of others.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tandem_host::harness::Generation;
use tandem_host::workspace::{Snapshot, WorkspaceConfig};
use tokio::sync::Mutex;

use super::ListenArguments;
use crate::cli::harness::{Bench, Place};
use crate::cli::{Exit, setup};
use crate::serve::mcp::{
    OpenSessions, PATH, Server, SessionLimits, Setup, Swapper, has_tools, needs_files, not_expressible,
    router, serve_stdio,
};
use crate::serve::{Audit, ControlSocket, Drain, until_signal};

/// The word for whatever the ledger says.
const CURRENT: &str = "current";

#[derive(clap::Args)]
pub struct McpArguments {
    /// `current`, `previous`, a digest or its first digits, or a manifest in TOML. `current` follows the
    /// ledger of the home while the server runs.
    #[arg(long, default_value = CURRENT)]
    harness: String,
    #[command(flatten)]
    place: Place,
    /// A folder of which every session has a copy; tools work on that and reach nothing else.
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Offer `bash` beside the tools of plugins: commands run in the session's sandbox.
    #[arg(long, requires = "repo")]
    bash: bool,
    /// Let open sessions go on to a harness that is activated: they are told that the tools changed, and
    /// take the new ones with the next list that they ask for.
    #[arg(long)]
    follow: bool,
    /// Listen for HTTP at this address instead of talking over standard input and output.
    #[arg(long, value_name = "HOST:PORT")]
    http: Option<String>,
    /// Most sessions at once, over HTTP.
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    sessions: usize,
    /// Seconds of silence after which a session is closed, over HTTP.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0, value_parser = super::parse_seconds)]
    session_seconds: f64,
    /// Make this Unix socket, for `tandem harness activate --server`.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Write what is served, and every swap, to this file; without it to `serve-audit.jsonl` in the home,
    /// if there is one.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    #[command(flatten)]
    who: ListenArguments,
}

pub async fn run(arguments: McpArguments) -> Result<Exit> {
    let listener = match &arguments.http {
        Some(address) => Some(arguments.who.listen(address).await?),
        None => None,
    };
    let found = arguments.place.find(&arguments.harness)?;
    let bench = Bench::new()?;
    let generation = bench.build(&arguments.place, &found.manifest).await?;
    let server = Server::new(generation.clone(), settings(&arguments, &generation).await?);
    told(&arguments, &generation);

    let home = std::path::absolute(arguments.place.dir()).context("the home has no path")?;
    let audit = match &arguments.audit {
        Some(file) => Some(Audit::open(file)?),
        None if home.is_dir() => Some(Audit::open(&home.join("serve-audit.jsonl"))?),
        None => None,
    };
    let swapper = Swapper {
        server: server.clone(),
        home,
        engine: setup::engine()?,
        admission: setup::admission()?,
        audit,
        seen: Mutex::new(0),
    };
    swapper.note("start")?;
    let control = arguments.control.as_deref().map(ControlSocket::bind).transpose()?;
    let drain = Drain::default();
    let serving = async {
        match listener {
            None => serve_stdio(&server, &drain, arguments.who.body_bytes).await,
            Some(listener) => {
                eprintln!("listening at http://{}{PATH}", listener.address());
                let silent = Duration::from_secs_f64(arguments.session_seconds);
                let sessions = SessionLimits { count: arguments.sessions, silent };
                let router = router(server.clone(), listener.limits(), sessions, drain.clone());
                listener.serve(router, drain.clone()).await;
                Ok(())
            }
        }
    };
    let controlling = async {
        match &control {
            Some(control) => control.serve(async |ask| swapper.answer(ask).await).await,
            None => std::future::pending().await,
        }
    };
    let watching = async {
        match arguments.harness == CURRENT {
            true => swapper.watch().await,
            false => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = until_signal(&drain, arguments.who.drain(), serving) => ended,
        () = controlling => bail!("the control socket broke"),
        () = watching => bail!("the ledger cannot be watched"),
    };
    swapper.note("stop")?;
    Ok(super::exit(ended?))
}

async fn settings(arguments: &McpArguments, generation: &Generation) -> Result<Setup> {
    let workspaces: WorkspaceConfig = setup::workspaces()?;
    let files = match &arguments.repo {
        None => None,
        Some(folder) => {
            let folder = std::fs::canonicalize(folder).with_context(|| {
                format!("the folder {} cannot be opened\nhelp: check `--repo`", folder.display())
            })?;
            if !folder.is_dir() {
                bail!("{} is no folder\nhelp: give a folder with `--repo`", folder.display());
            }
            Some(Arc::new(Snapshot::take(&folder, &workspaces).await?))
        }
    };
    if files.is_none() && needs_files(generation) {
        eprintln!(
            "warning: plugins of this harness read, write or run something, and without `--repo` they find no files"
        );
    }
    let open_sessions = if arguments.follow { OpenSessions::Follow } else { OpenSessions::Keep };
    Ok(Setup { files, workspaces, bash: arguments.bash, open_sessions })
}

/// Says what is served and what of it cannot be.
fn told(arguments: &McpArguments, generation: &Generation) {
    eprintln!("serving the harness {}", generation.digest());
    if !has_tools(generation) && !arguments.bash {
        eprintln!("warning: no plugin of this harness has tools, so none are offered");
    }
    let left_out = not_expressible(&generation.facts(), arguments.bash);
    if !left_out.is_empty() {
        eprintln!("not expressible over MCP:");
        left_out.iter().for_each(|line| eprintln!("  {line}"));
    }
}
