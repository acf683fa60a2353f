//! Loading libucp.

use std::ffi::CStr;
use std::sync::Arc;

use crate::bindings::Functions;
use crate::error::Error;
use crate::signals;

/// The name under which every version so far is installed.
const LIBRARY: &str = "libucp.so.0";
/// UCX writes what goes wrong to the standard output, where programs have their results. Here it comes back as an error: so UCX is silent unless
/// whoever starts the program says how much it is to write.
const LOG_LEVEL_VARIABLE: &str = "UCX_LOG_LEVEL";
/// The first version that this was made for and tried with.
const LEAST: (u32, u32) = (1, 13);

/// UCX, loaded. A clone is the same.
#[derive(Clone)]
pub struct Ucx {
    pub(crate) functions: Arc<Functions>,
    /// Major and minor.
    pub(crate) version: (u32, u32),
}

impl Ucx {
    /// Load the machine's. It stays loaded for as long as anything here uses it. Errors: [`Error::Missing`], [`Error::Unfit`].
    pub fn load() -> Result<Ucx, Error> {
        Ucx::load_from(LIBRARY)
    }

    /// The same from a path, or under another name.
    pub fn load_from(path: &str) -> Result<Ucx, Error> {
        let handlers = signals::Handlers::of_now();
        // SAFETY: its constructors set up tables of its own, and handlers for signals, which are put back.
        let functions = unsafe { Functions::new(path) };
        handlers.put_back();
        let functions = functions.map_err(|error| Error::Missing(error.to_string()))?;
        if std::env::var_os(LOG_LEVEL_VARIABLE).is_none() {
            // SAFETY: two strings that live until it returns. Where it does not know them it says so, and writes on.
            unsafe { functions.ucs_global_opts_set_value(c"LOG_LEVEL".as_ptr(), c"fatal".as_ptr()) };
        }
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: three places to write to.
        unsafe { functions.ucp_get_version(&mut major, &mut minor, &mut release) };
        let ucx = Ucx { functions: Arc::new(functions), version: (major, minor) };
        if ucx.version < LEAST { Err(Error::Unfit(ucx.version_string())) } else { Ok(ucx) }
    }

    /// Its version, as `1.13.1`.
    pub fn version_string(&self) -> String {
        // SAFETY: a string that is never freed.
        let version = unsafe { CStr::from_ptr(self.functions.ucp_get_version_string()) };
        version.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_it_is_told_what_to_install() {
        let error = Ucx::load_from("libnobody-has-this.so.0").err().unwrap().to_string();
        assert!(error.contains("libnobody-has-this") && error.contains("apt-get install libucx0"), "{error}");
    }
}
