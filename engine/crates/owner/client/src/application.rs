//! Which application is served, and how it runs, as its greetings say.

use coffer_protocol::wire::Hello;

use crate::ClientError;

/// The application that is served, once it has said which.
#[derive(Default)]
pub(crate) struct Application {
    pub(crate) name: Option<String>,
    /// Engines are host engines: they get session keys, and nothing else.
    pub(crate) hosts: bool,
    /// The driver runs where the cluster does.
    pub(crate) cluster: bool,
    /// Executors are the driver's own process.
    pub(crate) local: bool,
    /// What Spark's processes say to each other is authenticated and encrypted.
    pub(crate) network_sealed: bool,
}

impl Application {
    /// The first greeting says which it is; later ones are of the same.
    pub(crate) fn greet(&mut self, hello: &Hello) -> Result<(), ClientError> {
        if self.name.is_none() {
            self.name = Some(hello.application.clone());
            self.hosts = hello.host_engines;
            (self.local, self.network_sealed) = (hello.local_master, hello.network_sealed);
        }
        self.cluster |= hello.cluster_deploy_mode;
        self.local &= hello.local_master;
        self.network_sealed &= hello.network_sealed;
        if self.name.as_ref() != Some(&hello.application) || self.hosts != hello.host_engines {
            return Err(ClientError::OtherApplication);
        }
        Ok(())
    }
}
