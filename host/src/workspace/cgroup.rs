//! Which caps hold for all processes of a workspace together? Those of a control group.
//!
//! Version 2 where a folder is delegated to this user with `memory` and `pids`,
//! version 1 where its hierarchies may be written (a root host), else none: then
//! only the resource limits of each process hold, and [`InForce`] says so.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Serialize;

use super::config::{Backend, SandboxLimits, WorkspaceConfig};
use super::error::Error;
use super::lease::{Held, Lease, Session};

/// Microseconds in which a share of the processors is counted.
const PERIOD: u64 = 100_000;

/// What enforces the caps of memory, processes and processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InForce {
    /// All processes of a workspace together.
    CgroupV2,
    /// All processes of a workspace together.
    CgroupV1,
    /// Each process alone; nothing bounds their sum, nor the share of the processors.
    ProcessLimits,
    /// The container engine; see its own documentation.
    Engine,
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CgroupV2 => "control groups, version 2: caps hold for all processes of a workspace together",
            Self::CgroupV1 => "control groups, version 1: caps hold for all processes of a workspace together",
            Self::ProcessLimits => {
                "resource limits: caps of memory hold for each process alone, and there is no cap of processors"
            }
            Self::Engine => "the container engine's own control groups",
        })
    }
}

/// What enforces the caps of commands on this machine, under these settings.
pub fn in_force(config: &WorkspaceConfig) -> InForce {
    match config.backend {
        Backend::Container => InForce::Engine,
        Backend::Host => InForce::ProcessLimits,
        Backend::Bubblewrap => Parent::of(config).map_or(InForce::ProcessLimits, |parent| parent.version()),
    }
}

/// Where groups can be made on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Parent {
    V2(PathBuf),
    V1 { memory: PathBuf, pids: PathBuf, cpu: Option<PathBuf> },
}

/// The group of one workspace. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Cgroup {
    folders: Vec<PathBuf>,
    version: InForce,
    _lease: Lease,
}

impl Cgroup {
    /// A group with the caps of `limits`; none where this machine lets us make none.
    pub(super) fn make(session: &Arc<Session>, config: &WorkspaceConfig) -> Result<Option<Self>, Error> {
        let Some(parent) = Parent::of(config) else { return Ok(None) };
        let session_name = session.folder().file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{session_name}-{}", session.number());
        let plan = parent.plan(&name, &config.sandbox);
        let folders: Vec<_> = plan.iter().map(|(folder, _)| folder.clone()).collect();
        let lease = session.hold(Held::Cgroup { paths: folders.clone() }, config.lease())?;
        let group = Self { folders, version: parent.version(), _lease: lease };
        for (folder, settings) in plan {
            fs::create_dir(&folder).map_err(Error::io("making the control group", &folder))?;
            for (name, value) in settings {
                let file = folder.join(name);
                fs::write(&file, value).map_err(Error::io("setting", &file))?;
            }
        }
        Ok(Some(group))
    }

    pub(super) fn in_force(&self) -> InForce {
        self.version
    }

    /// A process that writes 0 to each of these is in the group.
    pub(super) fn doors(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            if !remove(folder) {
                tracing::warn!("the control group {} could not be removed", folder.display());
            }
        }
    }
}

/// Kills what is in a group and removes it; true when it is gone.
pub(super) fn remove(folder: &Path) -> bool {
    for _ in 0..50 {
        match fs::remove_dir(folder) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) => {}
        }
        if fs::write(folder.join("cgroup.kill"), "1").is_err() {
            let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for pid in listed.lines().filter_map(|line| line.parse::<i32>().ok()) {
                // SAFETY: a signal to a process of a group that is ours.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

impl Parent {
    /// The one of the settings, else the one that this machine has.
    fn of(config: &WorkspaceConfig) -> Option<Self> {
        static FOUND: OnceLock<Option<Parent>> = OnceLock::new();
        match &config.cgroup {
            Some(folder) => Some(Self::V2(folder.clone())),
            None => FOUND.get_or_init(Self::find).clone(),
        }
    }

    fn version(&self) -> InForce {
        match self {
            Self::V2(_) => InForce::CgroupV2,
            Self::V1 { .. } => InForce::CgroupV1,
        }
    }

    /// Folders to make and what to write into each.
    fn plan(&self, name: &str, limits: &SandboxLimits) -> Vec<(PathBuf, Vec<(&'static str, String)>)> {
        let quota = limits.cpu_percent.map(|percent| (u64::from(percent) * PERIOD / 100).max(1_000));
        match self {
            Self::V2(base) => {
                let mut settings = vec![
                    ("memory.max", limits.memory.to_string()),
                    ("memory.swap.max", "0".to_owned()),
                    ("pids.max", limits.processes.to_string()),
                ];
                settings.extend(quota.map(|quota| ("cpu.max", format!("{quota} {PERIOD}"))));
                vec![(base.join(name), settings)]
            }
            Self::V1 { memory, pids, cpu } => {
                let mut plan = vec![
                    (memory.join(name), vec![("memory.limit_in_bytes", limits.memory.to_string())]),
                    (pids.join(name), vec![("pids.max", limits.processes.to_string())]),
                ];
                if let (Some(cpu), Some(quota)) = (cpu, quota) {
                    let settings = vec![
                        ("cpu.cfs_period_us", PERIOD.to_string()),
                        ("cpu.cfs_quota_us", quota.to_string()),
                    ];
                    plan.push((cpu.join(name), settings));
                }
                plan
            }
        }
    }

    fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let table = Table::read(&mounts, &own);
        table.v2.filter(|base| open_v2(base)).map(Self::V2).or_else(|| {
            let (memory, pids, cpu) = (table.memory?, table.pids?, table.cpu);
            let cpu = cpu.filter(|base| can_make(base));
            (can_make(&memory) && can_make(&pids)).then_some(Self::V1 { memory, pids, cpu })
        })
    }
}

/// The groups that this process is in, as folders.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    v2: Option<PathBuf>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
}

impl Table {
    /// From `/proc/self/mountinfo` and `/proc/self/cgroup`.
    fn read(mounts: &str, own: &str) -> Self {
        let mut table = Self::default();
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let mut left = left.split(' ').skip(3);
            let (Some(root), Some(point)) = (left.next(), left.next()) else { continue };
            let mut right = right.split(' ');
            let (kind, options) = (right.next().unwrap_or_default(), right.nth(1).unwrap_or_default());
            let folder = |wanted: &str| {
                let path = own.lines().find_map(|line| {
                    let mut parts = line.splitn(3, ':').skip(1);
                    let (controllers, path) = (parts.next()?, parts.next()?);
                    controllers.split(',').any(|name| name == wanted).then_some(path)
                })?;
                let below = path.strip_prefix(root.trim_end_matches('/'))?.trim_start_matches('/');
                Some(Path::new(point).join(below))
            };
            match kind {
                "cgroup2" => table.v2 = folder(""),
                "cgroup" => {
                    for option in options.split(',') {
                        match option {
                            "memory" => table.memory = folder("memory"),
                            "pids" => table.pids = folder("pids"),
                            "cpu" => table.cpu = folder("cpu"),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        table
    }
}

/// Whether groups with caps can be made in a folder of version 2. A group with
/// processes has no children with controllers: where this process is the only
/// one, it steps into a child of its own first.
fn open_v2(base: &Path) -> bool {
    let controllers = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
    let has = |wanted: &str| controllers.split_whitespace().any(|name| name == wanted);
    if !has("memory") || !has("pids") {
        return false;
    }
    let wanted = if has("cpu") { "+memory +pids +cpu" } else { "+memory +pids" };
    let control = base.join("cgroup.subtree_control");
    if fs::write(&control, wanted).is_err() {
        let inside = fs::read_to_string(base.join("cgroup.procs")).unwrap_or_default();
        let own = std::process::id().to_string();
        if inside.trim() != own {
            return false;
        }
        let leaf = base.join("tandem-host");
        let stepped = fs::create_dir_all(&leaf).and_then(|()| fs::write(leaf.join("cgroup.procs"), own));
        if stepped.is_err() || fs::write(&control, wanted).is_err() {
            return false;
        }
    }
    can_make(base)
}

fn can_make(base: &Path) -> bool {
    let trial = base.join(format!("tandem-trial-{}", std::process::id()));
    fs::create_dir(&trial).is_ok() && fs::remove_dir(&trial).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mounts: &str, own: &str, expected: [Option<&str>; 4]) {
        let [v2, memory, pids, cpu] = expected.map(|path| path.map(PathBuf::from));
        assert_eq!(Table::read(mounts, own), Table { v2, memory, pids, cpu });
    }

    #[test]
    fn groups_are_found_in_every_layout() {
        check(
            "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
            "0::/user.slice/user-1000.slice/run-7.scope\n",
            [Some("/sys/fs/cgroup/user.slice/user-1000.slice/run-7.scope"), None, None, None],
        );
        check(
            "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             33 23 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
             34 23 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "4:memory:/a\n3:cpu,cpuacct:/\n2:pids:/b/c\n0::/\n",
            [
                Some("/sys/fs/cgroup/unified/"),
                Some("/sys/fs/cgroup/memory/a"),
                Some("/sys/fs/cgroup/pids/b/c"),
                Some("/sys/fs/cgroup/cpu,cpuacct/"),
            ],
        );
        // In a container the mount shows a part of the hierarchy.
        check(
            "30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "0::/docker/x/y\n",
            [Some("/sys/fs/cgroup/y"), None, None, None],
        );
        check("", "", [None; 4]);
    }

    #[test]
    fn every_version_gets_the_same_caps() {
        let limits = SandboxLimits {
            memory: 1 << 30,
            processes: 7,
            cpu_percent: Some(150),
            ..SandboxLimits::default()
        };
        let text = |parent: Parent| {
            let plan = parent.plan("t", &limits);
            let lines = plan.iter().flat_map(|(folder, settings)| {
                settings.iter().map(move |(name, value)| format!("{}/{name}={value}\n", folder.display()))
            });
            lines.collect::<String>()
        };
        expect_test::expect![[r#"
            /cg/t/memory.max=1073741824
            /cg/t/memory.swap.max=0
            /cg/t/pids.max=7
            /cg/t/cpu.max=150000 100000
        "#]]
        .assert_eq(&text(Parent::V2("/cg".into())));
        expect_test::expect![[r#"
            /m/t/memory.limit_in_bytes=1073741824
            /p/t/pids.max=7
            /c/t/cpu.cfs_period_us=100000
            /c/t/cpu.cfs_quota_us=150000
        "#]]
        .assert_eq(&text(Parent::V1 { memory: "/m".into(), pids: "/p".into(), cpu: Some("/c".into()) }));
    }
}
