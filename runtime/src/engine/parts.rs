//! Components that the engine needs for a flow. The registry of components creates them.

use std::sync::Arc;

use tremor_log::{Disk, SystemDisk};
use tremor_pdk::{Error, Operator, Postprocessor, Preprocessor};

use crate::{
    codec::MakeCodec, dynamic::DynConnector, engine::handle::connection::Connection, flow,
    watchdog::Limit,
};

/// A connector of a flow, before an instance of it is created.
pub(crate) struct ConnectorType {
    /// Codec of the connector. `None` for connectors of values.
    pub(crate) codec: Option<Box<dyn MakeCodec>>,
    pub(crate) make: MakeConnector,
}

/// An instance of an operator.
pub(crate) struct OperatorInstance {
    pub(crate) operator: Box<dyn Operator>,
    /// Names of the operator's ports other than `in`, `out` and `err`.
    pub(crate) ports: Vec<String>,
    /// Creates another instance if this one panics. `None` for built-in operators.
    pub(crate) make: Option<MakeOperator>,
    /// Creates an instance for another task. `None` unless the operator is stateless.
    pub(crate) another: Option<MakeInstance>,
}

/// Creates an instance of a connector. The instance breaks the [`Connection`] when it reports to its host that it lost
/// the connection. The [`Limit`] applies to each call of the instance.
pub(crate) type MakeConnector =
    Box<dyn Fn(&Arc<Connection>, Limit) -> Result<Box<dyn DynConnector>, Error> + Send + Sync>;

/// Creates an instance of an operator.
pub(crate) type MakeOperator = Box<dyn Fn() -> Result<Box<dyn Operator>, Error> + Send>;

/// Creates a further instance of a stateless operator, which other tasks call at the same time as the first one.
pub(crate) type MakeInstance = Box<dyn Fn() -> Result<OperatorInstance, Error> + Send + Sync>;

/// Creates another instance of a preprocessor.
pub(crate) type MakePreprocessor = Box<dyn Fn() -> Result<Box<dyn Preprocessor>, Error> + Send>;

/// Creates the components of a flow.
pub(crate) trait Parts {
    /// Returns the file system of queues on disk.
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(SystemDisk)
    }

    /// Returns the type and the codec of a connector.
    ///
    /// # Errors
    /// Returns the reason why the connector cannot be created, with its location in the flow file.
    fn connector(&self, connector: &flow::Connector) -> Result<ConnectorType, flow::Diagnostic>;

    /// Returns the codec of a connector, or `None` for connectors of values.
    ///
    /// # Errors
    /// Returns the reason why the codec cannot be created, with its location in the flow file.
    fn codec(
        &self,
        connector: &flow::Connector,
    ) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic>;

    /// Creates an instance of an operator of `pipeline`.
    ///
    /// # Errors
    /// Returns the reason why the operator cannot be created, with its location in the flow file.
    fn operator(
        &self,
        pipeline: &str,
        operator: &flow::Component,
    ) -> Result<OperatorInstance, flow::Diagnostic>;

    /// Returns whether an operator is stateless, so that several instances have the same effect as one.
    fn is_stateless(&self, operator: &flow::Component) -> bool;

    /// Creates a preprocessor of a connector. Returns the preprocessor and a function that creates further instances.
    ///
    /// # Errors
    /// Returns the reason why the preprocessor cannot be created, with its location in the flow file.
    fn preprocessor(
        &self,
        connector: &str,
        component: &flow::Component,
    ) -> Result<(Box<dyn Preprocessor>, MakePreprocessor), flow::Diagnostic>;

    /// Creates a postprocessor of a connector.
    ///
    /// # Errors
    /// Returns the reason why the postprocessor cannot be created, with its location in the flow file.
    fn postprocessor(
        &self,
        connector: &str,
        component: &flow::Component,
    ) -> Result<Box<dyn Postprocessor>, flow::Diagnostic>;
}
