//! What a flow is made of, as the engine asks for it.

use std::sync::Arc;

use tremor_pdk::{Error, Operator, Postprocessor, Preprocessor};

use crate::{
    codec::MakeCodec, dynamic::DynConnector, engine::handle::connection::Connection, flow,
    watchdog::Limit,
};

/// What the engine has to know of a connector's type.
pub(crate) struct ConnectorType {
    /// The codec that it is to be given; none for structured connectors.
    pub(crate) codec: Option<Box<dyn MakeCodec>>,
    pub(crate) make: MakeConnector,
}

/// An operator.
pub(crate) struct OperatorInstance {
    pub(crate) operator: Box<dyn Operator>,
    /// The names of its own ports.
    pub(crate) ports: Vec<String>,
    /// Makes another one, should this one panic; none for what is built in.
    pub(crate) make: Option<MakeOperator>,
}

/// Makes an instance of a connector, whose host breaks the connection that it is given when the instance
/// says so, and whose calls have the limit.
pub(crate) type MakeConnector =
    Box<dyn Fn(&Arc<Connection>, Limit) -> Result<Box<dyn DynConnector>, Error> + Send + Sync>;

/// Makes an instance of an operator.
pub(crate) type MakeOperator = Box<dyn Fn() -> Result<Box<dyn Operator>, Error> + Send>;

/// Makes another instance of a preprocessor.
pub(crate) type MakePreprocessor = Box<dyn Fn() -> Result<Box<dyn Preprocessor>, Error> + Send>;

/// What a flow is made of, from the registry of components.
pub(crate) trait Parts {
    /// The type of a connector.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn connector(&self, connector: &flow::Connector) -> Result<ConnectorType, flow::Diagnostic>;

    /// The codec of a connector: none for connectors of values.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn codec(
        &self,
        connector: &flow::Connector,
    ) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic>;

    /// An instance of an operator for a pipeline.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn operator(
        &self,
        pipeline: &str,
        operator: &flow::Component,
    ) -> Result<OperatorInstance, flow::Diagnostic>;

    /// Whether an operator keeps nothing between batches, so that several of it are as good as one.
    fn is_stateless(&self, operator: &flow::Component) -> bool;

    /// Makes a preprocessor of a connector, and returns with it what makes further instances.
    ///
    /// # Errors
    /// The reason why there is no instance, at the component's line of the flow file.
    fn preprocessor(
        &self,
        connector: &str,
        component: &flow::Component,
    ) -> Result<(Box<dyn Preprocessor>, MakePreprocessor), flow::Diagnostic>;

    /// A postprocessor of a connector.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn postprocessor(
        &self,
        connector: &str,
        component: &flow::Component,
    ) -> Result<Box<dyn Postprocessor>, flow::Diagnostic>;
}
