//! `/v1/ns/operator/push/state`: what pushes came to.
//!
//! Source: Nacos 1.4.8 naming module, push state of the operator controller; compat files `operator-state`, `push`.

use serde::{Serialize, Serializer};

use super::{Api, V1Call, params::Params, reply::Reply, routes::Outcome};

/// Fields in wire order.
#[derive(Serialize)]
struct StateDocument {
    succeed: u64,
    total: u64,
    ratio: Ratio,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Vec<String>>,
    reset: bool,
}

/// A float, but the integer 0 before the first push.
struct Ratio {
    succeed: u64,
    total: u64,
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.total == 0 {
            return serializer.serialize_i32(0);
        }
        #[expect(clippy::cast_precision_loss, reason = "the reference divides 32-bit floats as well")]
        let ratio = self.succeed as f32 / self.total as f32;
        serializer.serialize_f32(ratio)
    }
}

/// GET: `detail` shows the packets that failed or wait, `reset` forgets those that failed.
pub fn show(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let detail = params.typed_boolean("detail")?;
    let reset = params.typed_boolean("reset")?;
    let state = api.push.state(detail);
    if reset {
        api.push.forget_failed();
    }
    Ok(Reply::json(&StateDocument {
        succeed: state.succeed,
        total: state.total,
        ratio: Ratio { succeed: state.succeed, total: state.total },
        data: detail.then_some(state.packets),
        reset,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json;

    fn shown(succeed: u64, total: u64, data: Option<Vec<String>>) -> String {
        let shown = StateDocument { succeed, total, ratio: Ratio { succeed, total }, data, reset: false };
        String::from_utf8(json::to_bytes(&shown)).unwrap()
    }

    #[test]
    fn the_ratio_is_an_integer_before_the_first_push() {
        assert_eq!(shown(0, 0, None), r#"{"succeed":0,"total":0,"ratio":0,"reset":false}"#);
        assert_eq!(shown(9, 9, None), r#"{"succeed":9,"total":9,"ratio":1.0,"reset":false}"#);
        let packets = Some(vec!["{}".to_string()]);
        assert_eq!(
            shown(1, 3, packets),
            r#"{"succeed":1,"total":3,"ratio":0.33333334,"data":["{}"],"reset":false}"#
        );
    }
}
