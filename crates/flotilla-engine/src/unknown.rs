//! A machine whose host does not answer.

use std::io;

use async_trait::async_trait;
use flotilla_core::{
    Cmd, DriverError, ExecOutput, Guest, GuestError, Machine, MachineRecord, MachineState, Reader, Session,
    TtySize, Writer,
};
use flotilla_spec::{DriverName, NodeName};

/// It stands for a machine that the state knows and nobody can ask about.
#[derive(Debug)]
pub(crate) struct UnknownMachine {
    pub(crate) name: NodeName,
    pub(crate) driver: DriverName,
    pub(crate) why: String,
}

impl UnknownMachine {
    fn error<T>(&self) -> Result<T, GuestError> {
        Err(GuestError::Unknown { node: self.name.to_string(), why: self.why.clone() })
    }
}

#[async_trait]
impl Machine for UnknownMachine {
    fn name(&self) -> &NodeName {
        &self.name
    }

    fn driver(&self) -> &DriverName {
        &self.driver
    }

    fn state(&self) -> MachineState {
        MachineState::unknown(self.why.clone())
    }

    fn guest(&self) -> &dyn Guest {
        self
    }

    async fn record(&self) -> Result<MachineRecord, DriverError> {
        Ok(self.error()?)
    }

    async fn set_record(&self, _: &MachineRecord) -> Result<(), DriverError> {
        Ok(self.error()?)
    }

    async fn bundles(&self) -> Result<Vec<String>, DriverError> {
        Ok(self.error()?)
    }

    fn read_disk(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
        Err(io::Error::other(self.why.clone()))
    }
}

#[async_trait]
impl Guest for UnknownMachine {
    async fn run(&self, _: Cmd) -> Result<ExecOutput, GuestError> {
        self.error()
    }

    async fn open(&self, _: Cmd, _: Option<TtySize>) -> Result<Session, GuestError> {
        self.error()
    }

    async fn write(&self, _: &str, _: u32, _: &[u8]) -> Result<(), GuestError> {
        self.error()
    }

    async fn read(&self, _: &str) -> Result<Option<Vec<u8>>, GuestError> {
        self.error()
    }

    async fn copy_in(&self, _: Reader, _: &str, _: u32) -> Result<(), GuestError> {
        self.error()
    }

    async fn copy_out(&self, _: &str, _: Writer) -> Result<u32, GuestError> {
        self.error()
    }
}
