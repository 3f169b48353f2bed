//! The exchange of the links of components while a flow runs.
//!
//! A ticket of each component is the cut: batches with earlier tickets have passed the previous links, and later ones pass
//! the new ones.

use std::{collections::VecDeque, sync::Arc};

use crate::engine::{
    handle::connection::Connection,
    route::{
        outlets::Outlet,
        router::{Egress, Ticket},
        stage::Stage,
    },
    target::Ports,
};

/// The links that a component gets.
pub(crate) struct Wiring {
    pub(crate) ports: Ports,
    /// The pipelines that the tasks of the component run, by their index as a target.
    pub(crate) stages: Vec<Stage>,
    pub(crate) outlets: Vec<Outlet>,
}

/// Gives components other links. Waits until batches with earlier tickets have passed the previous links; meanwhile, tasks
/// of the components do not wait for the capacity of queues. If the returned future is dropped before that, nothing has
/// changed.
///
/// Operators that are not part of the new pipelines emit what they buffer into the previous links.
pub(crate) async fn exchange(all: Vec<(Arc<Egress>, Wiring)>) {
    let (egresses, wirings): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let hurried: Vec<_> = egresses.iter().map(Egress::hurry).collect();
    let mut tickets: Vec<Ticket> = egresses.iter().map(Egress::ticket).collect();
    let mut entered = Vec::with_capacity(egresses.len());
    for (egress, ticket) in egresses.iter().zip(&mut tickets) {
        let routes = egress.routes.enter(ticket.number).await;
        ticket.was_routed = true;
        let queues = egress.queues.enter(ticket.number).await;
        ticket.was_queued = true;
        entered.push((egress, routes, queues));
    }
    // A send over a broken connection does not wait for capacity, so the remainder does not wait.
    let broken = Connection::default();
    broken.break_off();
    for ((_, routes, queues), wiring) in entered.iter_mut().zip(&wirings) {
        let mut outgoing = VecDeque::new();
        routes.retire(&wiring.stages);
        routes.take_outgoing(&mut outgoing);
        let mut ready = outgoing.into_iter().map(|(queue, item)| (queue, item.into())).collect();
        queues.send(&mut ready, Some(&broken)).await;
    }
    for ((egress, mut routes, mut queues), wiring) in entered.into_iter().zip(wirings) {
        routes.exchange(wiring.ports, wiring.stages);
        queues.exchange(wiring.outlets);
        egress.set_due(routes.due());
    }
    drop(hurried);
}
