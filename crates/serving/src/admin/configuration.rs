//! `/api/config`: the configuration file that the server follows, and whether its content is applied.

use axum::Json;
use axum::extract::State;

use crate::app::App;
use crate::caller::Admin;
use crate::problem::{Code, Problem};
use crate::route::Route;
use crate::serve::follow::Followed;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("get_config", "/api/config", get)
            .admin("config", "Say whether the configuration file of the server is in force")
            .answers_plain::<Followed>(),
    ]
}

async fn get(Admin(_): Admin, State(app): State<App>) -> Result<Json<Followed>, Problem> {
    let followed = app.followed.get().map(|state| state.now());
    let detail = "this server follows no configuration file: start it with --config FILE";
    followed.map(Json).ok_or_else(|| Problem::new(Code::NotFound, detail))
}
