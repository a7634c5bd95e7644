//! How is running work told to stop?

use std::sync::Arc;

use tokio::sync::watch;

/// A request to stop, shared by everything that runs. An episode that stops
/// leaves no record, so that it runs again from its start.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Cancel {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Asks everything that shares this to stop. Asking again changes nothing.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once it was asked.
    pub async fn cancelled(&self) {
        let mut watch = self.0.subscribe();
        // The sender lives in `self`, so the channel cannot close.
        let _ = watch.wait_for(|asked| *asked).await;
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
