//! Lists of all there is of a kind.

use std::pin::pin;

use futures_util::StreamExt;
use rtnetlink::packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;

use super::{Net, NetError};

/// How often a list is asked for that others keep changing. Then the last one has to do: newer kernels, at least, leave out
/// nothing that has not changed.
const TRIES: usize = 10;

impl Net {
    /// Everything that the kernel answers to a request for a list.
    ///
    /// The kernel gives a long list in parts, and marks those during which something came or went: such a list may have
    /// gaps, also where nothing has changed. It is asked for again.
    pub(super) fn list<T>(
        &self,
        what: &'static str,
        request: &RouteNetlinkMessage,
        pick: fn(RouteNetlinkMessage) -> Option<T>,
    ) -> Result<Vec<T>, NetError> {
        let mut tries = 0;
        loop {
            let listed = self.request(list_once(self.netlink.clone(), request.clone(), pick));
            let (items, is_whole) = listed.map_err(|source| NetError::List { what, source })?;
            tries += 1;
            if is_whole || tries == TRIES {
                return Ok(items);
            }
        }
    }
}

/// What one request gives, and whether nothing changed meanwhile.
async fn list_once<T>(
    mut netlink: rtnetlink::Handle,
    request: RouteNetlinkMessage,
    pick: fn(RouteNetlinkMessage) -> Option<T>,
) -> Result<(Vec<T>, bool), rtnetlink::Error> {
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let (mut items, mut is_whole) = (Vec::new(), true);
    let mut answers = pin!(netlink.request(message)?);
    while let Some(answer) = answers.next().await {
        is_whole &= answer.header.flags & NLM_F_DUMP_INTR == 0;
        match answer.payload {
            NetlinkPayload::InnerMessage(inner) => items.extend(pick(inner)),
            NetlinkPayload::Error(error) => return Err(rtnetlink::Error::NetlinkError(error)),
            _ => {}
        }
    }
    Ok((items, is_whole))
}
