//! What UCX is opened with.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use crate::bindings::{
    UCP_API_MAJOR, UCP_API_MINOR, UCP_ATTR_FIELD_THREAD_MODE, UCP_FEATURE_AM, UCP_FEATURE_RMA, UCP_FEATURE_WAKEUP,
    UCP_PARAM_FIELD_FEATURES, UCP_PARAM_FIELD_MT_WORKERS_SHARED, UCS_OK, UCS_THREAD_MODE_MULTI, ucp_config_t,
    ucp_context_h,
};
use crate::error::Error;
use crate::library::Ucx;

/// What serves on one machine, and by TCP between machines, whatever the version: reads of shared memory need no help of the other process.
pub const DEFAULT_TRANSPORTS: &str = "posix,cma,tcp,self";

/// How UCX is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Transports that may be used, as `UCX_TLS` names them: [`DEFAULT_TRANSPORTS`], or `rc_verbs,ud_verbs` on RDMA.
    pub transports: &'a str,
    /// Interfaces of the network that may be used, as `UCX_NET_DEVICES` names them; all of them if nothing is said. Whoever reaches one may read
    /// the memory.
    pub devices: Option<&'a str>,
}

/// UCX, opened. A clone is the same one.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<Opened>);

pub(crate) struct Opened {
    pub ucx: Ucx,
    pub handle: ucp_context_h,
}

// SAFETY: opened for use by several threads (MT_WORKERS_SHARED), and only if UCX says that it is.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Context {
    /// Open it. Errors: a transport or an interface that there is none of is [`Error::Failed`]; [`Error::Unfit`].
    pub fn open(ucx: &Ucx, options: &Options<'_>) -> Result<Context, Error> {
        let functions = &*ucx.functions;
        let config = Config::read(ucx)?;
        config.set("TLS", options.transports)?;
        if let Some(devices) = options.devices {
            config.set("NET_DEVICES", devices)?;
        }
        // SAFETY: plain numbers and pointers, for which zero stands for "not given"; the mask says which are.
        let mut params: crate::bindings::ucp_params_t = unsafe { MaybeUninit::zeroed().assume_init() };
        params.field_mask = u64::from(UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED);
        params.features = u64::from(UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP);
        params.mt_workers_shared = 1;
        let mut handle = ptr::null_mut();
        // SAFETY: the parameters, the configuration and the place for the handle live until it returns.
        let status =
            unsafe { functions.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config.handle, &mut handle) };
        if status != UCS_OK {
            return Err(Error::failed(functions, "be opened with these transports", status.into()));
        }
        let opened = Opened { ucx: ucx.clone(), handle };
        if opened.thread_mode() != Some(UCS_THREAD_MODE_MULTI) {
            return Err(Error::Unfit(ucx.version_string()));
        }
        Ok(Context(Arc::new(opened)))
    }
}

impl Opened {
    fn thread_mode(&self) -> Option<u32> {
        // SAFETY: plain numbers.
        let mut attributes: crate::bindings::ucp_context_attr_t = unsafe { MaybeUninit::zeroed().assume_init() };
        attributes.field_mask = u64::from(UCP_ATTR_FIELD_THREAD_MODE);
        // SAFETY: a context that is open, and a place to write to.
        let status = unsafe { self.ucx.functions.ucp_context_query(self.handle, &mut attributes) };
        (status == UCS_OK).then_some(attributes.thread_mode)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: workers and memory keep it alive, so there are none left.
        unsafe { self.ucx.functions.ucp_cleanup(self.handle) };
    }
}

/// What is read from the environment, to be changed.
struct Config<'a> {
    ucx: &'a Ucx,
    handle: *mut ucp_config_t,
}

impl Config<'_> {
    fn read(ucx: &Ucx) -> Result<Config<'_>, Error> {
        let mut handle = ptr::null_mut();
        // SAFETY: null stands for no prefix and no file.
        let status = unsafe { ucx.functions.ucp_config_read(ptr::null(), ptr::null(), &mut handle) };
        match status {
            UCS_OK => Ok(Config { ucx, handle }),
            status => Err(Error::failed(&ucx.functions, "read its environment", status.into())),
        }
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let strings = CString::new(name).and_then(|name| Ok((name, CString::new(value)?)));
        let (name, value) = strings.map_err(|error| Error::Failed { what: "be configured", why: error.to_string() })?;
        // SAFETY: both strings live until it returns, which copies them.
        let status = unsafe { self.ucx.functions.ucp_config_modify(self.handle, name.as_ptr(), value.as_ptr()) };
        if status == UCS_OK { Ok(()) } else { Err(Error::failed(&self.ucx.functions, "be configured", status.into())) }
    }
}

impl Drop for Config<'_> {
    fn drop(&mut self) {
        // SAFETY: read above, and released once.
        unsafe { self.ucx.functions.ucp_config_release(self.handle) };
    }
}
