//! One file per command, each with a `run`.

mod apply;
mod availability;
mod bundle;
mod completion;
mod cp;
mod delete;
mod diff;
mod doctor;
mod etcd;
mod export;
mod failure;
mod file;
mod ip;
mod kubectl;
mod list;
mod logs;
mod node;
mod pause;
mod profile;
mod recover;
mod schema;
mod ssh;
mod start;
mod status;
mod stop;
mod update_context;
mod version;

use flotilla_ops::OpError;
use flotilla_spec::SpecError;

use crate::args::{Command, GetCommand, ProfileArgs, ProfileCommand};
use crate::cluster::Cx;
use crate::profile::Profile;
use crate::screen::Screen;
use crate::wiring::Wiring;

/// Gives the exit status of a command that went well: nearly always 0.
pub(crate) fn run(
    command: Command,
    profile: &Profile,
    screen: &Screen,
    wiring: &Wiring,
) -> Result<u8, OpError> {
    let done = |()| 0;
    let cx = || Cx::new(profile.name(), screen, wiring);
    match command {
        Command::Start(args) => start::run(profile, &args, screen, wiring).map(done),
        Command::Apply(args) => apply::run(profile.given(), &args, screen, wiring).map(done),
        Command::Diff(args) => diff::run(profile.given(), &args, screen, wiring),
        Command::Export => export::run(&cx()?).map(done),
        Command::Schema => {
            schema::run(screen);
            Ok(0)
        }
        Command::Status(args) => status::run(&cx()?, &args),
        Command::List(_) => list::run(&cx()?).map(done),
        Command::Profile(ProfileArgs { command: Some(ProfileCommand::List(args)), .. }) => {
            list::run_profiles(&cx()?, &args).map(done)
        }
        Command::Profile(ProfileArgs { name, .. }) => {
            profile::run(&cx()?, profile, name.as_deref()).map(done)
        }
        Command::Get(GetCommand::Clusters(_)) => list::run_names(&cx()?).map(done),
        Command::Stop(args) => stop::run(&cx()?, &args).map(done),
        Command::Delete(args) => delete::run(&cx()?, &args).map(done),
        Command::Pause(args) => pause::pause(&cx()?, &args).map(done),
        Command::Unpause(args) => pause::unpause(&cx()?, &args, None).map(done),
        Command::DockerEnv(_) => Err(SpecError::ComesWithDocker.into()),
        Command::Node(command) => node::run(&cx()?, command),
        Command::Etcd(command) => etcd::run(&cx()?, &command),
        Command::Recover(args) => recover::run(&cx()?, &args).map(done),
        Command::Kubectl(args) => kubectl::run(&cx()?, args).map(done),
        Command::Ssh(args) => ssh::run(&cx()?, &args),
        Command::Logs(args) => logs::run(&cx()?, &args),
        Command::Cp(args) => cp::run(&cx()?, &args).map(done),
        Command::Ip(args) => ip::run(&cx()?, &args).map(done),
        Command::Doctor(_) => Ok(doctor::run(&cx()?)),
        Command::UpdateContext(_) => update_context::run(&cx()?).map(done),
        Command::Bundle(command) => bundle::run(command, screen, wiring).map(done),
        Command::Version(args) => {
            version::run(&args, screen);
            Ok(0)
        }
        Command::Completion(args) => {
            completion::run(&args, screen);
            Ok(0)
        }
    }
}
