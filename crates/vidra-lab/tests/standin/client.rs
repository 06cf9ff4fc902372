//! A plain HTTP client for the tests.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use vidra_lab::standin::StandIn;

pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// The message of the usual error envelope.
    pub(crate) fn message(&self) -> String {
        self.json()["errors"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Client {
    pub(crate) fn of(standin: &StandIn) -> Self {
        // A second installation fails, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([]);
        if let Some(pem) = standin.authority() {
            let authority = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
            builder = builder.tls_certs_only([authority]);
        }
        Self {
            http: builder.build().unwrap(),
            base: standin.url(),
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer {
            status,
            headers,
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body))
            .await
    }

    pub(crate) async fn graphql(&self, path: &str, query: &str) -> Answer {
        self.post(path, json!({ "query": query })).await
    }

    pub(crate) async fn login(&self, name: &str, password: &str) -> (String, String) {
        let answer = self
            .post(
                "/api/auth/login",
                json!({ "username": name, "password": password }),
            )
            .await
            .json();
        let token = |name: &str| answer[name].as_str().unwrap().to_owned();
        (token("access_token"), token("refresh_token"))
    }

    pub(crate) async fn with_bearer(&self, path: &str, token: &str) -> Answer {
        self.send(self.request(Method::GET, path).bearer_auth(token))
            .await
    }
}
