//! What did a campaign bring, measured apart from it? The matrix of policies and harnesses on tasks that
//! no part of the campaign has seen.

mod alike;
mod arms;
mod bench;
mod bisect;
mod disjoint;
mod figures;
mod numbers;
mod pages;
mod pinned;
mod table;

pub use alike::differences;
pub use arms::{ARMS, Arm, Choice, Kinds, Part, arms};
pub use bench::{Bench, Machine, Source, adopt, tasks_of};
pub use bisect::{
    Asked, Bisected, culprit, places as bisect_places, recorded as bisect_recorded, search as bisect_search,
};
pub use disjoint::{TaskUse, check_campaign, check_disjoint, tasks_in};
pub use pages::{html, markdown};
pub use pinned::Pinned;
pub use table::evaluation;
