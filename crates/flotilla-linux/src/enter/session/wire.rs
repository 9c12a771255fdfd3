//! What we and the stage of a session say to each other: one message of JSON a packet, over a socket pair.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flotilla_core::Exit;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// No message is longer.
const LONGEST: usize = 4096;
/// How much of an error is told.
pub(super) const LONGEST_TEXT: usize = 500;

/// What the stage tells.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The program runs. Comes with our side of its terminal, if it has one.
    Started,
    /// It does not, and never will.
    Failed {
        errno: Option<i32>,
        text: String,
    },
    Ended(Exit),
}

/// Sends a message, and a descriptor with it.
pub(super) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(socket, &[IoSlice::new(&json)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message. None: the other side is gone.
pub(super) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut buffer = [0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        match recvmsg(socket, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            // It went away with something of ours unread.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            received => received?.bytes,
        };
    if received == 0 {
        return Ok(None);
    }
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(Some((serde_json::from_slice(&buffer[..received])?, descriptor)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn messages_stay_whole_and_carry_descriptors() {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&one, &Report::Started, Some(writer.as_fd())).unwrap();
        send(&one, &Report::Ended(Exit::Signal(9)), None).unwrap();
        drop((one, writer));
        let (report, descriptor) = receive::<Report>(&other).unwrap().unwrap();
        assert!(matches!(report, Report::Started));
        std::fs::File::from(descriptor.unwrap()).write_all(b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        let (report, descriptor) = receive::<Report>(&other).unwrap().unwrap();
        assert!(matches!(report, Report::Ended(Exit::Signal(9))) && descriptor.is_none());
        assert!(receive::<Report>(&other).unwrap().is_none());
    }
}
