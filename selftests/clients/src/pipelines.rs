// SPDX-License-Identifier: GPL-2.0

//! Pipelines of OpenTelemetry's SDK that export to user_events: logs, traces, metrics.

use crate::perf::Record;
use crate::writers::Client;
use crate::Failure;
use opentelemetry::logs::AnyValue;
use opentelemetry::logs::LogRecord;
use opentelemetry::logs::Logger;
use opentelemetry::logs::LoggerProvider;
use opentelemetry::logs::Severity;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::Span;
use opentelemetry::trace::SpanContext;
use opentelemetry::trace::SpanId;
use opentelemetry::trace::SpanKind;
use opentelemetry::trace::Status;
use opentelemetry::trace::TraceContextExt;
use opentelemetry::trace::TraceFlags;
use opentelemetry::trace::TraceId;
use opentelemetry::trace::Tracer;
use opentelemetry::trace::TracerProvider;
use opentelemetry::Context;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::SdkLogger;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracer;
use opentelemetry_sdk::trace::SdkTracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_user_events_metrics::MetricsExporter;
use prost::Message;
use std::io;
use std::io::Write;
use std::sync::Mutex;
use std::sync::Once;
use std::time::Duration;
use std::time::SystemTime;
use tracing_subscriber::EnvFilter;

/// Output of the libraries to `tracing` since the last check: errors that they do not return.
static SAID: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Said;

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        SAID.lock()
            .map_err(|error| io::Error::other(error.to_string()))?
            .write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Captures the output of the exporters, at all levels.
fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("off,opentelemetry-user-events=trace"))
            .with_ansi(false)
            .with_writer(|| Said)
            .init();
    });
}

/// Returns the errors that a pipeline reports to its user: by its result, or by a message about a
/// lost record.
fn told(result: OTelSdkResult) -> Result<(), String> {
    let mut said = SAID.lock().map_err(|error| error.to_string())?;
    let lines = String::from_utf8_lossy(&said).into_owned();
    said.clear();
    let line = lines
        .lines()
        .find(|line| line.contains("Failed") || line.contains("Exceeded"));
    let line = line.map_or(String::new(), |line| format!("says {line}"));
    match result {
        Ok(()) if line.is_empty() => Ok(()),
        Ok(()) => Err(line),
        Err(error) => Err(format!("returns {error}, {line}")),
    }
}

/// The writer's identity, in all records.
fn resource() -> Resource {
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", "shop"),
            KeyValue::new("service.instance.id", "shop-7"),
            KeyValue::new("zone", "z1"),
        ])
        .build()
}

/// A time for records: this number of seconds after 2024-01-01.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_704_067_200 + seconds)
}

/// `opentelemetry-user-events-logs`.
pub struct Logs {
    provider: SdkLoggerProvider,
    logger: SdkLogger,
}

impl Logs {
    pub fn open() -> Result<Box<dyn Client>, Failure> {
        listen();
        let processor = opentelemetry_user_events_logs::Processor::builder("client_logs")
            .with_resource_attributes(["zone"])
            .build()
            .map_err(|error| error.to_string())?;
        let provider = SdkLoggerProvider::builder()
            .with_resource(resource())
            .with_log_processor(processor)
            .build();
        let logger = provider.logger("shop");
        Ok(Box::new(Logs { provider, logger }))
    }
}

impl Client for Logs {
    fn events(&self) -> Vec<&'static str> {
        vec![
            "client_logs_L1K1",
            "client_logs_L2K1",
            "client_logs_L3K1",
            "client_logs_L4K1",
            "client_logs_L5K1",
        ]
    }

    fn write_known(&mut self) -> Result<Vec<String>, Failure> {
        let severities = [
            (Severity::Fatal, "FATAL"),
            (Severity::Error, "ERROR"),
            (Severity::Warn, "WARN"),
            (Severity::Info, "INFO"),
            (Severity::Debug, "DEBUG"),
        ];
        let mut expected = Vec::new();
        for (number, (severity, name)) in (0..).zip(severities) {
            let mut record = self.logger.create_log_record();
            record.set_timestamp(at(number));
            record.set_severity_number(severity);
            record.set_severity_text(name);
            record.set_event_name("sale");
            record.set_trace_context(
                TraceId::from(0x0102_0304_u128),
                SpanId::from(0x0506_u64),
                Some(TraceFlags::SAMPLED),
            );
            record.set_body(AnyValue::from(format!("message {number}")));
            record.add_attribute("event_id", 40 + number as i64);
            record.add_attribute("count", -3_i64);
            record.add_attribute("price", 2.5_f64);
            record.add_attribute("paid", true);
            record.add_attribute("fruit", "apples");
            self.logger.emit(record);
            expected.push(format!(
                "client_logs:Log {{ \"__csver__\": 1024, \"PartA\": {{ \"time\": \"2024-01-01T00:00:0{number}Z\", \
                 \"ext_dt_traceId\": \"00000000000000000000000001020304\", \"ext_dt_spanId\": \"0000000000000506\", \
                 \"ext_cloud_role\": \"shop\", \"ext_cloud_roleInstance\": \"shop-7\" }}, \
                 \"PartC\": {{ \"zone\": \"z1\", \"count\": -3, \"price\": 2.5, \"paid\": true, \"fruit\": \"apples\" }}, \
                 \"PartB\": {{ \"_typeName\": \"Log\", \"body\": \"message {number}\", \"severityNumber\": {}, \
                 \"severityText\": \"{name}\", \"eventId\": {}, \"name\": \"sale\" }} }}",
                severity as i32,
                40 + number
            ));
        }
        told(self.provider.force_flush())?;
        Ok(expected)
    }

    fn write_sized(&mut self, size: usize) -> Result<(), String> {
        let mut record = self.logger.create_log_record();
        record.set_severity_number(Severity::Info);
        record.set_body(AnyValue::from("x".repeat(size)));
        self.logger.emit(record);
        told(self.provider.force_flush())
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        let _ = self.provider.shutdown();
    }
}

/// `opentelemetry-user-events-trace`.
pub struct Trace {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Trace {
    pub fn open() -> Result<Box<dyn Client>, Failure> {
        listen();
        let processor = opentelemetry_user_events_trace::Processor::builder("client_trace")
            .build()
            .map_err(|error| error.to_string())?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource())
            .with_span_processor(processor)
            .build();
        let tracer = provider.tracer("shop");
        Ok(Box::new(Trace { provider, tracer }))
    }
}

/// Returns the `PartA` of all spans here.
fn part_a(context: &SpanContext, second: u64) -> String {
    format!(
        "\"PartA\": {{ \"time\": \"2024-01-01T00:00:0{second}Z\", \"ext_dt_traceId\": \"{}\", \
         \"ext_dt_spanId\": \"{}\", \"ext_cloud_role\": \"shop\", \"ext_cloud_roleInstance\": \"shop-7\" }}",
        context.trace_id(),
        context.span_id()
    )
}

impl Client for Trace {
    fn events(&self) -> Vec<&'static str> {
        vec!["client_trace_L4K1"]
    }

    fn write_known(&mut self) -> Result<Vec<String>, Failure> {
        let parent = self
            .tracer
            .span_builder("order")
            .with_kind(SpanKind::Server)
            .with_start_time(at(1))
            .with_attributes([
                KeyValue::new("http.request.method", "GET"),
                KeyValue::new("http.response.status_code", 200),
                KeyValue::new("fruit", "apples"),
                KeyValue::new("count", -3),
            ])
            .start_with_context(&self.tracer, &Context::new());
        let context = Context::new().with_span(parent);
        let mut child = self
            .tracer
            .span_builder("pay")
            .with_kind(SpanKind::Client)
            .with_start_time(at(2))
            .start_with_context(&self.tracer, &context);
        child.set_status(Status::error("no money"));
        child.end_with_timestamp(at(3));
        context.span().end_with_timestamp(at(4));
        told(self.provider.force_flush())?;

        let (of_parent, of_child) = (
            context.span().span_context().clone(),
            child.span_context().clone(),
        );
        Ok(vec![
            format!(
                "client_trace:Span {{ \"__csver__\": 1024, {}, \"PartB\": {{ \"_typeName\": \"Span\", \"name\": \"pay\", \
                 \"startTime\": \"2024-01-01T00:00:02Z\", \"success\": false, \"kind\": 2, \"parentId\": \"{}\", \
                 \"statusMessage\": \"no money\" }} }}",
                part_a(&of_child, 3),
                of_parent.span_id()
            ),
            format!(
                "client_trace:Span {{ \"__csver__\": 1024, {}, \"PartB\": {{ \"_typeName\": \"Span\", \"name\": \"order\", \
                 \"startTime\": \"2024-01-01T00:00:01Z\", \"success\": true, \"kind\": 1, \"httpMethod\": \"GET\", \
                 \"httpStatusCode\": 200 }}, \"PartC\": {{ \"fruit\": \"apples\", \"count\": -3 }} }}",
                part_a(&of_parent, 4)
            ),
        ])
    }

    fn write_sized(&mut self, size: usize) -> Result<(), String> {
        let mut span = self.tracer.start_with_context("sized", &Context::new());
        span.set_attribute(KeyValue::new("text", "x".repeat(size)));
        span.end();
        told(self.provider.force_flush())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.provider.shutdown();
    }
}

/// `opentelemetry-user-events-metrics`.
pub struct Metrics {
    provider: SdkMeterProvider,
}

impl Metrics {
    pub fn open() -> Result<Box<dyn Client>, Failure> {
        listen();
        let provider = SdkMeterProvider::builder()
            .with_resource(resource())
            .with_periodic_exporter(MetricsExporter::new())
            .build();
        Ok(Box::new(Metrics { provider }))
    }
}

impl Client for Metrics {
    fn events(&self) -> Vec<&'static str> {
        vec!["otlp_metrics"]
    }

    fn write_known(&mut self) -> Result<Vec<String>, Failure> {
        let meter = self.provider.meter("till");
        let fruit = |name: &'static str| [KeyValue::new("fruit", name)];
        let sold = meter.u64_counter("sold").with_unit("kg").build();
        sold.add(2, &fruit("apples"));
        sold.add(40, &fruit("apples"));
        sold.add(7, &fruit("pears"));
        meter.i64_up_down_counter("stock").build().add(-5, &[]);
        meter.f64_gauge("degrees").build().record(2.5, &[]);
        let price = meter
            .f64_histogram("price")
            .with_boundaries(vec![1.0, 10.0])
            .build();
        price.record(0.5, &[]);
        price.record(3.0, &[]);
        price.record(30.0, &[]);
        told(self.provider.force_flush())?;
        Ok([
            "shop till sold kg {fruit=apples} sum 42",
            "shop till sold kg {fruit=pears} sum 7",
            "shop till stock  {} sum -5",
            "shop till degrees  {} gauge 2.5",
            "shop till price  {} histogram [1, 1, 1] sum 33.5",
        ]
        .map(str::to_string)
        .to_vec())
    }

    fn write_sized(&mut self, size: usize) -> Result<(), String> {
        self.provider
            .meter("till")
            .u64_counter("sized")
            .build()
            .add(1, &[KeyValue::new("text", "x".repeat(size))]);
        told(self.provider.force_flush())
    }

    /// Each record is a request of its own, with one metric and one point.
    fn text(&self, record: &Record) -> Result<String, Failure> {
        let start =
            "user_events:otlp_metrics { \"protocol\": 0, \"version\": \"v0.19.00\", \"buffer\": ";
        if !record.text.starts_with(start) {
            return Err(format!("{} does not begin with {start}", record.text));
        }
        let buffer = record
            .buffer
            .as_deref()
            .ok_or("a record without a buffer")?;
        let request =
            ExportMetricsServiceRequest::decode(buffer).map_err(|error| error.to_string())?;
        describe(&request).ok_or_else(|| format!("another request: {request:?}"))
    }
}

/// Describes a request with one point.
fn describe(request: &ExportMetricsServiceRequest) -> Option<String> {
    let [of_resource] = &request.resource_metrics[..] else {
        return None;
    };
    let [of_scope] = &of_resource.scope_metrics[..] else {
        return None;
    };
    let [metric] = &of_scope.metrics[..] else {
        return None;
    };
    let text = |value: &Option<opentelemetry_proto::tonic::common::v1::AnyValue>| match value
        .as_ref()?
        .value
        .as_ref()?
    {
        any_value::Value::StringValue(text) => Some(text.clone()),
        _ => None,
    };
    let number = |value: &Option<number_data_point::Value>| match value.as_ref()? {
        number_data_point::Value::AsInt(number) => Some(number.to_string()),
        number_data_point::Value::AsDouble(number) => Some(number.to_string()),
    };
    let service = of_resource
        .resource
        .as_ref()?
        .attributes
        .iter()
        .find(|attribute| attribute.key == "service.name")?;
    let (attributes, value) = match metric.data.as_ref()? {
        Data::Sum(sum) => {
            let [point] = &sum.data_points[..] else {
                return None;
            };
            (&point.attributes, format!("sum {}", number(&point.value)?))
        }
        Data::Gauge(gauge) => {
            let [point] = &gauge.data_points[..] else {
                return None;
            };
            (
                &point.attributes,
                format!("gauge {}", number(&point.value)?),
            )
        }
        Data::Histogram(histogram) => {
            let [point] = &histogram.data_points[..] else {
                return None;
            };
            let value = format!("histogram {:?} sum {}", point.bucket_counts, point.sum?);
            (&point.attributes, value)
        }
        _ => return None,
    };
    let attributes = attributes
        .iter()
        .map(|attribute| Some(format!("{}={}", attribute.key, text(&attribute.value)?)))
        .collect::<Option<Vec<String>>>()?;
    Some(format!(
        "{} {} {} {} {{{}}} {value}",
        text(&service.value)?,
        of_scope.scope.as_ref()?.name,
        metric.name,
        metric.unit,
        attributes.join(", ")
    ))
}

impl Drop for Metrics {
    fn drop(&mut self) {
        let _ = self.provider.shutdown();
    }
}
