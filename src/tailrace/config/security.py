"""Settings of encryption, authentication and authorization, which do not exist yet: a setting that asks for one of them
stops the start. Settings that only tune a login ask for nothing. As in Kafka, they may be changed at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import (
    MAX_INT,
    MAX_LONG,
    MAX_SHORT,
    MIN_INT,
    MIN_LONG,
    MIN_SHORT,
    Effect,
    Mode,
    Real,
    boolean,
    choice,
    class_name,
    key,
    password,
    plain,
    text_list,
    whole,
)

NONE: Final = Effect.NONE
LATER: Final = Effect.LATER
REFUSED: Final = Effect.REFUSED


@dataclass(frozen=True)
class SecurityConfig:
    authorizer_class_name: str = key("", plain, "the Java class that decides who may do what", effect=REFUSED)
    connection_failed_authentication_delay_ms: int = key(
        100, whole(0, MAX_INT), "wait before a connection that failed to authenticate is closed", effect=NONE
    )
    connections_max_reauth_ms: int = key(
        0,
        whole(MIN_LONG, MAX_LONG),
        "how long an authenticated connection lasts before it must authenticate again; 0: for ever",
        effect=REFUSED,
    )
    delegation_token_expiry_check_interval_ms: int = key(
        3_600_000, whole(1, MAX_LONG), "how often to look for delegation tokens that have expired", effect=NONE
    )
    delegation_token_expiry_time_ms: int = key(
        86_400_000, whole(1, MAX_LONG), "how long a delegation token holds before it must be renewed", effect=NONE
    )
    delegation_token_max_lifetime_ms: int = key(
        604_800_000, whole(1, MAX_LONG), "how long a delegation token can be renewed", effect=NONE
    )
    delegation_token_secret_key: str | None = key(
        None, password, "the secret that delegation tokens are signed with", effect=REFUSED
    )
    principal_builder_class: str = key(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        class_name,
        "the Java class that makes a principal of a connection",
        effect=REFUSED,
    )
    sasl_client_callback_handler_class: str | None = key(
        None, class_name, "of SASL: client callback handler class", effect=REFUSED
    )
    sasl_enabled_mechanisms: tuple[str, ...] = key(
        ("GSSAPI",), text_list, "mechanisms that clients may authenticate by", effect=REFUSED
    )
    sasl_jaas_config: str | None = key(None, password, "of SASL: jaas config", effect=REFUSED)
    sasl_kerberos_kinit_cmd: str = key("/usr/bin/kinit", plain, "of SASL: kerberos kinit cmd", effect=REFUSED)
    sasl_kerberos_min_time_before_relogin: int = key(
        60_000,
        whole(MIN_LONG, MAX_LONG),
        "minimum time between two Kerberos logins, in ms",
        mode=Mode.PER_BROKER,
        effect=LATER,
    )
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = key(
        ("DEFAULT",), text_list, "of SASL: kerberos principal to local rules", effect=REFUSED
    )
    sasl_kerberos_service_name: str | None = key(None, plain, "of SASL: kerberos service name", effect=REFUSED)
    sasl_kerberos_ticket_renew_jitter: float = key(
        0.05,
        Real(),
        "random share of the time after which a Kerberos ticket is renewed",
        mode=Mode.PER_BROKER,
        effect=LATER,
    )
    sasl_kerberos_ticket_renew_window_factor: float = key(
        0.8,
        Real(),
        "share of the lifetime of a Kerberos ticket after which it is renewed",
        mode=Mode.PER_BROKER,
        effect=LATER,
    )
    sasl_login_callback_handler_class: str | None = key(
        None, class_name, "of SASL: login callback handler class", effect=REFUSED
    )
    sasl_login_class: str | None = key(None, class_name, "of SASL: login class", effect=REFUSED)
    sasl_login_connect_timeout_ms: int | None = key(
        None, whole(MIN_INT, MAX_INT), "of SASL: login connect timeout ms", effect=REFUSED
    )
    sasl_login_read_timeout_ms: int | None = key(
        None, whole(MIN_INT, MAX_INT), "of SASL: login read timeout ms", effect=REFUSED
    )
    sasl_login_refresh_buffer_seconds: int = key(
        300,
        whole(MIN_SHORT, MAX_SHORT),
        "time before a login credential expires at which it is refreshed",
        mode=Mode.PER_BROKER,
        effect=LATER,
    )
    sasl_login_refresh_min_period_seconds: int = key(
        60,
        whole(MIN_SHORT, MAX_SHORT),
        "minimum time between two refreshes of a login credential",
        mode=Mode.PER_BROKER,
        effect=LATER,
    )
    sasl_login_refresh_window_factor: float = key(
        0.8,
        Real(),
        "share of the lifetime of a login credential after which it is refreshed",
        mode=Mode.PER_BROKER,
        effect=LATER,
    )
    sasl_login_refresh_window_jitter: float = key(
        0.05,
        Real(),
        "random share of the time after which a login credential is refreshed",
        mode=Mode.PER_BROKER,
        effect=LATER,
    )
    sasl_login_retry_backoff_max_ms: int = key(
        10_000, whole(MIN_LONG, MAX_LONG), "of SASL: login retry backoff max ms", effect=REFUSED
    )
    sasl_login_retry_backoff_ms: int = key(
        100, whole(MIN_LONG, MAX_LONG), "of SASL: login retry backoff ms", effect=REFUSED
    )
    sasl_mechanism_controller_protocol: str = key(
        "GSSAPI", plain, "the mechanism between brokers and controllers", effect=REFUSED
    )
    sasl_mechanism_inter_broker_protocol: str = key("GSSAPI", plain, "the mechanism between brokers", effect=REFUSED)
    sasl_oauthbearer_assertion_algorithm: str = key(
        "RS256", choice("ES256", "RS256", ignores_case=True), "of SASL: oauthbearer assertion algorithm", effect=REFUSED
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = key(
        None, plain, "of SASL: oauthbearer assertion claim aud", effect=REFUSED
    )
    sasl_oauthbearer_assertion_claim_exp_seconds: int = key(
        300, whole(0, 86_400), "of SASL: oauthbearer assertion claim exp seconds", effect=REFUSED
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = key(
        None, plain, "of SASL: oauthbearer assertion claim iss", effect=REFUSED
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = key(
        False, boolean, "of SASL: oauthbearer assertion claim jti include", effect=REFUSED
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = key(
        60, whole(0, 3_600), "of SASL: oauthbearer assertion claim nbf seconds", effect=REFUSED
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = key(
        None, plain, "of SASL: oauthbearer assertion claim sub", effect=REFUSED
    )
    sasl_oauthbearer_assertion_file: str | None = key(
        None, plain, "of SASL: oauthbearer assertion file", effect=REFUSED
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = key(
        None, plain, "of SASL: oauthbearer assertion private key file", effect=REFUSED
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = key(
        None, password, "of SASL: oauthbearer assertion private key passphrase", effect=REFUSED
    )
    sasl_oauthbearer_assertion_template_file: str | None = key(
        None, plain, "of SASL: oauthbearer assertion template file", effect=REFUSED
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = key(
        None, plain, "of SASL: oauthbearer client credentials client id", effect=REFUSED
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = key(
        None, password, "of SASL: oauthbearer client credentials client secret", effect=REFUSED
    )
    sasl_oauthbearer_clock_skew_seconds: int = key(
        30, whole(MIN_INT, MAX_INT), "of SASL: oauthbearer clock skew seconds", effect=REFUSED
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = key(
        (), text_list, "of SASL: oauthbearer expected audience", effect=REFUSED
    )
    sasl_oauthbearer_expected_issuer: str | None = key(
        None, plain, "of SASL: oauthbearer expected issuer", effect=REFUSED
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = key(
        3_600_000, whole(MIN_LONG, MAX_LONG), "of SASL: oauthbearer jwks endpoint refresh ms", effect=REFUSED
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = key(
        10_000, whole(MIN_LONG, MAX_LONG), "of SASL: oauthbearer jwks endpoint retry backoff max ms", effect=REFUSED
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = key(
        100, whole(MIN_LONG, MAX_LONG), "of SASL: oauthbearer jwks endpoint retry backoff ms", effect=REFUSED
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = key(
        None, plain, "of SASL: oauthbearer jwks endpoint url", effect=REFUSED
    )
    sasl_oauthbearer_jwt_retriever_class: str = key(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        class_name,
        "of SASL: oauthbearer jwt retriever class",
        effect=REFUSED,
    )
    sasl_oauthbearer_jwt_validator_class: str = key(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        class_name,
        "of SASL: oauthbearer jwt validator class",
        effect=REFUSED,
    )
    sasl_oauthbearer_scope: str | None = key(None, plain, "of SASL: oauthbearer scope", effect=REFUSED)
    sasl_oauthbearer_scope_claim_name: str = key(
        "scope", plain, "of SASL: oauthbearer scope claim name", effect=REFUSED
    )
    sasl_oauthbearer_sub_claim_name: str = key("sub", plain, "of SASL: oauthbearer sub claim name", effect=REFUSED)
    sasl_oauthbearer_token_endpoint_url: str | None = key(
        None, plain, "of SASL: oauthbearer token endpoint url", effect=REFUSED
    )
    sasl_server_callback_handler_class: str | None = key(
        None, class_name, "of SASL: server callback handler class", effect=REFUSED
    )
    sasl_server_max_receive_size: int = key(
        524_288, whole(MIN_INT, MAX_INT), "largest message of an authentication", effect=REFUSED
    )
    security_providers: str | None = key(None, plain, "Java classes that provide security algorithms", effect=REFUSED)
    ssl_allow_dn_changes: bool = key(False, boolean, "of TLS: allow dn changes", effect=REFUSED)
    ssl_allow_san_changes: bool = key(False, boolean, "of TLS: allow san changes", effect=REFUSED)
    ssl_cipher_suites: tuple[str, ...] = key((), text_list, "of TLS: cipher suites", effect=REFUSED)
    ssl_client_auth: str = key(
        "none", choice("required", "requested", "none"), "whether clients must show a certificate", effect=REFUSED
    )
    ssl_enabled_protocols: tuple[str, ...] = key(
        ("TLSv1.2", "TLSv1.3"), text_list, "of TLS: enabled protocols", effect=REFUSED
    )
    ssl_endpoint_identification_algorithm: str = key(
        "https", plain, "of TLS: endpoint identification algorithm", effect=REFUSED
    )
    ssl_engine_factory_class: str | None = key(None, class_name, "of TLS: engine factory class", effect=REFUSED)
    ssl_key_password: str | None = key(None, password, "of TLS: key password", effect=REFUSED)
    ssl_keymanager_algorithm: str = key("SunX509", plain, "of TLS: keymanager algorithm", effect=REFUSED)
    ssl_keystore_certificate_chain: str | None = key(
        None, password, "of TLS: keystore certificate chain", effect=REFUSED
    )
    ssl_keystore_key: str | None = key(None, password, "of TLS: keystore key", effect=REFUSED)
    ssl_keystore_location: str | None = key(None, plain, "the file with the server's key", effect=REFUSED)
    ssl_keystore_password: str | None = key(None, password, "of TLS: keystore password", effect=REFUSED)
    ssl_keystore_type: str = key("JKS", plain, "of TLS: keystore type", effect=REFUSED)
    ssl_principal_mapping_rules: str = key("DEFAULT", plain, "of TLS: principal mapping rules", effect=REFUSED)
    ssl_protocol: str = key("TLSv1.3", plain, "of TLS: protocol", effect=REFUSED)
    ssl_provider: str | None = key(None, plain, "of TLS: provider", effect=REFUSED)
    ssl_secure_random_implementation: str | None = key(
        None, plain, "of TLS: secure random implementation", effect=REFUSED
    )
    ssl_trustmanager_algorithm: str = key("PKIX", plain, "of TLS: trustmanager algorithm", effect=REFUSED)
    ssl_truststore_certificates: str | None = key(None, password, "of TLS: truststore certificates", effect=REFUSED)
    ssl_truststore_location: str | None = key(
        None, plain, "the file with the certificates that are trusted", effect=REFUSED
    )
    ssl_truststore_password: str | None = key(None, password, "of TLS: truststore password", effect=REFUSED)
    ssl_truststore_type: str = key("JKS", plain, "of TLS: truststore type", effect=REFUSED)
