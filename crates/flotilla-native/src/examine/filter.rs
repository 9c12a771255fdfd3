//! Queries `nf_tables` without the program `nft`: that comes with a bundle, which may not exist yet.
//!
//! The kernel loads its module if necessary. It answers only with `CAP_NET_ADMIN`.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

// The numbers are those of linux/netlink.h, linux/netfilter/nfnetlink.h and linux/netfilter/nf_tables.h.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFT_MSG_GETTABLE: u16 = 1;
const NFT_MSG_GETGEN: u16 = 16;
const NFTA_TABLE_NAME: u16 = 1;
const NFPROTO_UNSPEC: u8 = 0;
const NFPROTO_INET: u8 = 1;

/// The length of a message's header.
const HEADER: usize = 16;

/// Whether the kernel has `nf_tables`; none if unknown.
pub(super) fn has_nf_tables() -> Option<bool> {
    match ask(&question(NFT_MSG_GETGEN, NFPROTO_UNSPEC, &[])) {
        Ok(()) => Some(true),
        // No packet filter at all, or none with that subsystem.
        Err(Errno::PROTONOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP) => Some(false),
        Err(_) => None,
    }
}

/// Whether a table of that name exists in the family `inet`; none if unknown.
pub(super) fn has_table(name: &str) -> Option<bool> {
    match ask(&question(NFT_MSG_GETTABLE, NFPROTO_INET, &attribute(NFTA_TABLE_NAME, name))) {
        Ok(()) => Some(true),
        Err(Errno::NOENT | Errno::PROTONOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP) => Some(false),
        Err(_) => None,
    }
}

/// Sends a request to `nf_tables`. Only whether it succeeds matters.
fn ask(question: &[u8]) -> rustix::io::Result<()> {
    let protocol = Some(netlink::NETFILTER);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    send(&socket, question, SendFlags::empty())?;
    let mut answer = [0; 256];
    // The answer is available when `send` returns; if not, the result is unknown, which is better than waiting
    // forever.
    let (_, length) = recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    refusal(answer.get(..length).unwrap_or(&answer)).map_or(Ok(()), Err)
}

/// A message to `nf_tables` (netlink(7)): the header, the family of tables that it is about, attributes.
fn question(kind: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    let kind = NFNL_SUBSYS_NFTABLES << 8 | kind;
    let body = [&[family, 0, 0, 0], attributes].concat();
    let length = u32::try_from(HEADER + body.len()).expect("questions are short");
    let mut message = Vec::from(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    // The number of the question and the sender's, which the kernel fills in: we ask one at a time.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// A text as an attribute, filled up to a multiple of four bytes.
fn attribute(kind: u16, text: &str) -> Vec<u8> {
    let length = u16::try_from(4 + text.len() + 1).expect("names of tables are short");
    let mut attribute = Vec::from(length.to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(text.as_bytes());
    attribute.push(0);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// Why the kernel does not answer, if that is what its message says.
fn refusal(message: &[u8]) -> Option<Errno> {
    let kind = message.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    if kind != Some(NLMSG_ERROR) {
        return None;
    }
    let error = message.get(HEADER..HEADER + 4).and_then(|bytes| bytes.try_into().ok());
    // It is negative; zero would be a confirmation, which we did not ask for.
    let error = error.map_or(0, i32::from_ne_bytes).checked_neg().unwrap_or_default();
    (error != 0).then(|| Errno::from_raw_os_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_as_the_kernel_wants_them() {
        let message = question(NFT_MSG_GETTABLE, NFPROTO_INET, &attribute(NFTA_TABLE_NAME, "firewalld"));
        assert_eq!(message.len(), 36);
        assert_eq!(message[..4], 36_u32.to_ne_bytes());
        assert_eq!(message[4..6], 0x0a01_u16.to_ne_bytes());
        assert_eq!(message[16..20], [NFPROTO_INET, 0, 0, 0]);
        // Without the padding.
        assert_eq!(message[20..22], 14_u16.to_ne_bytes());
        assert_eq!(message[24..], *b"firewalld\0\0\0");
    }

    #[test]
    fn a_refusal_is_told_from_an_answer() {
        let mut message = question(15, NFPROTO_UNSPEC, &[]);
        assert_eq!(refusal(&message), None);
        message[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        message[16..20].copy_from_slice(&(-2_i32).to_ne_bytes());
        assert_eq!(refusal(&message), Some(Errno::NOENT));
        message[16..20].copy_from_slice(&0_i32.to_ne_bytes());
        assert_eq!(refusal(&message), None);
        assert_eq!(refusal(&[]), None);
    }

    #[test]
    fn a_table_that_nobody_made_is_not_there() {
        // Without root nothing is known.
        assert_ne!(has_table("flotilla-nobody-made-this"), Some(true));
    }
}
