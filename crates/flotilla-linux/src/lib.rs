//! What Flotilla asks of the Linux kernel, each part behind a small safe face.
//!
//! - [`host`] starts programs on the host: the one place that does, so that all of them die with us, can be
//!   cancelled, and leave their last words in the error;
//! - [`sandbox`] runs a program in namespaces of its own, on a root file system of its own;
//! - [`machine`] makes a machine out of namespaces that lives on without us, [`enter`] runs programs in it;
//! - [`mount`], [`dev`], [`cgroup`], [`loopback`] are the pieces both are made of;
//! - [`net`], [`nft`], [`sysctl`], [`resolver`] are links, addresses and routes, packet rules, kernel settings and the
//!   way to a name server;
//! - [`process`] waits for processes that are not our children, and tells the host's size;
//! - [`disk`] measures room and use of file systems, [`trial`] tries whether one can hold machines;
//! - [`erofs`] makes and mounts read-only images of directories;
//! - [`tree`] removes directories whatever is in them;
//! - [`user`] makes and enters user namespaces, and tries whether machines can have them;
//! - [`poll`] waits for changes that the kernel does not report;
//!
//! This is the only crate with unsafe code; every unsafe block says why it is sound. It never prints (except the
//! stages, which are programs of their own), never reads the environment, and knows nothing of clusters.

mod capabilities;
pub mod cgroup;
pub mod dev;
pub mod disk;
pub mod enter;
pub mod erofs;
pub mod host;
mod inherited;
mod loop_device;
pub mod loopback;
pub mod machine;
pub mod mount;
pub mod net;
pub mod nft;
pub mod poll;
pub mod process;
pub mod resolver;
pub mod sandbox;
pub mod sealed;
mod syscall_filter;
pub mod sysctl;
pub mod tree;
pub mod trial;
pub mod user;
