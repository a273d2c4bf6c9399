#include "observe/tensorboard/events.h"

#include <nlohmann/json.hpp>
#include <protozero/pbf_builder.hpp>

#include "observe/tensorboard/messages.h"

namespace accrue::observe {
namespace {

using protozero::pbf_builder;

std::string utf8(const std::string& text) {
  const nlohmann::json value = text;
  return nlohmann::json::parse(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
      .get<std::string>();
}

/// Adds an integer; the value 0 is left out, as in proto3.
template <typename Field>
void add_integer(pbf_builder<Field>& message, Field tag, std::int64_t value) {
  if (value != 0) message.add_int64(tag, value);
}

/// An event with the contents that `fill`, given its builder, adds.
template <typename Fill>
std::string event_of(const EventPlace& place, const Fill& fill) {
  std::string bytes;
  pbf_builder<field::Event> event(bytes);
  event.add_double(field::Event::wall_time, place.time);
  add_integer(event, field::Event::step, place.step);
  fill(event);
  return bytes;
}

/// An event of a summary, whose values `fill` adds.
template <typename Fill>
std::string summary_event(const EventPlace& place, const Fill& fill) {
  return event_of(place, [&](pbf_builder<field::Event>& event) {
    pbf_builder<field::Summary> summary(event, field::Event::summary);
    fill(summary);
  });
}

/// Adds a tagged value, whose content `fill` adds.
template <typename Fill>
void add_value(pbf_builder<field::Summary>& summary, const std::string& tag, const Fill& fill) {
  pbf_builder<field::SummaryValue> value(summary, field::Summary::value);
  value.add_string(field::SummaryValue::tag, utf8(tag));
  fill(value);
}

/// States which of TensorBoard's pages shows the value, with that page's data.
void add_plugin(pbf_builder<field::SummaryValue>& value, const char* name,
                const std::string& content) {
  pbf_builder<field::SummaryMetadata> metadata(value, field::SummaryValue::metadata);
  pbf_builder<field::PluginData> plugin(metadata, field::SummaryMetadata::plugin_data);
  plugin.add_string(field::PluginData::plugin_name, name);
  if (!content.empty()) plugin.add_bytes(field::PluginData::content, content);
}

void add_shape(pbf_builder<field::Tensor>& tensor, std::int64_t size) {
  std::string dimension;
  pbf_builder<field::Dimension> of_dimension(dimension);
  add_integer(of_dimension, field::Dimension::size, size);
  pbf_builder<field::TensorShape> shape(tensor, field::Tensor::tensor_shape);
  // A nested builder would leave out an empty dimension message, which means a size of 0.
  shape.add_message(field::TensorShape::dim, dimension);
}

void add_text(pbf_builder<field::Summary>& summary, const Text& text) {
  add_value(summary, text.tag, [&](pbf_builder<field::SummaryValue>& value) {
    {
      pbf_builder<field::Tensor> tensor(value, field::SummaryValue::tensor);
      tensor.add_enum(field::Tensor::dtype, data_type::string);
      add_shape(tensor, 1);
      tensor.add_bytes(field::Tensor::string_val, utf8(text.markdown));
    }
    add_plugin(value, "text", {});
  });
}

void add_histogram(pbf_builder<field::Summary>& summary, const std::string& tag,
                   const Histogram& histogram) {
  add_value(summary, tag, [&](pbf_builder<field::SummaryValue>& value) {
    pbf_builder<field::Histogram> message(value, field::SummaryValue::histo);
    message.add_double(field::Histogram::min, histogram.least);
    message.add_double(field::Histogram::max, histogram.most);
    message.add_double(field::Histogram::num, static_cast<double>(histogram.count));
    message.add_double(field::Histogram::sum, histogram.sum);
    message.add_double(field::Histogram::sum_squares, histogram.sum_of_squares);
    message.add_packed_double(field::Histogram::bucket_limit, histogram.limits.begin(),
                              histogram.limits.end());
    message.add_packed_double(field::Histogram::bucket, histogram.counts.begin(),
                              histogram.counts.end());
  });
}

/// The HParams page reads everything that it shows from a value's metadata; the value itself is an
/// empty tensor.
std::string hparams_event(const EventPlace& place, const char* tag, const std::string& content) {
  return summary_event(place, [&](pbf_builder<field::Summary>& summary) {
    add_value(summary, tag, [&](pbf_builder<field::SummaryValue>& value) {
      {
        pbf_builder<field::Tensor> tensor(value, field::SummaryValue::tensor);
        tensor.add_enum(field::Tensor::dtype, data_type::float32);
        add_shape(tensor, 0);
      }
      add_plugin(value, "hparams", content);
    });
  });
}

struct AddAnyValue {
  pbf_builder<field::AnyValue>& to;
  void operator()(bool value) const { to.add_bool(field::AnyValue::bool_value, value); }
  void operator()(double value) const { to.add_double(field::AnyValue::number_value, value); }
  void operator()(const std::string& value) const {
    to.add_string(field::AnyValue::string_value, utf8(value));
  }
};

void add_hyper_parameter(pbf_builder<field::SessionStart>& session,
                         const HyperParameter& parameter) {
  pbf_builder<field::MapEntry> entry(session, field::SessionStart::hparams);
  entry.add_string(field::MapEntry::key, utf8(parameter.name));
  pbf_builder<field::AnyValue> value(entry, field::MapEntry::value);
  std::visit(AddAnyValue{value}, parameter.value);
}

}  // namespace

std::string version_event(double time) {
  return event_of({.time = time}, [](pbf_builder<field::Event>& event) {
    event.add_string(field::Event::file_version, "brain.Event:2");
    pbf_builder<field::SourceMetadata> source(event, field::Event::source_metadata);
    source.add_string(field::SourceMetadata::writer, "accrue");
  });
}

std::string restart_event(const EventPlace& place) {
  return event_of(place, [](pbf_builder<field::Event>& event) {
    pbf_builder<field::SessionLog> log(event, field::Event::session_log);
    log.add_enum(field::SessionLog::status, session_status::start);
  });
}

std::string scalars_event(const EventPlace& place, std::span<const Scalar> scalars) {
  return summary_event(place, [&](pbf_builder<field::Summary>& summary) {
    for (const Scalar& scalar : scalars)
      add_value(summary, scalar.tag, [&](pbf_builder<field::SummaryValue>& value) {
        value.add_float(field::SummaryValue::simple_value, scalar.value);
      });
  });
}

std::string texts_event(const EventPlace& place, std::span<const Text> texts) {
  return summary_event(place, [&](pbf_builder<field::Summary>& summary) {
    for (const Text& text : texts) add_text(summary, text);
  });
}

std::string histograms_event(const EventPlace& place, const std::string& prefix,
                             std::span<const NamedHistogram> histograms) {
  return summary_event(place, [&](pbf_builder<field::Summary>& summary) {
    for (const NamedHistogram& named : histograms)
      add_histogram(summary, prefix + named.name, named.values);
  });
}

std::string session_start_event(const EventPlace& place,
                                std::span<const HyperParameter> hyper_parameters) {
  std::string content;
  pbf_builder<field::HParams> hparams(content);
  {
    pbf_builder<field::SessionStart> session(hparams, field::HParams::session_start_info);
    for (const HyperParameter& parameter : hyper_parameters)
      add_hyper_parameter(session, parameter);
    session.add_double(field::SessionStart::start_time_secs, place.time);
  }
  return hparams_event(place, "_hparams_/session_start_info", content);
}

std::string session_done_event(const EventPlace& place) {
  std::string content;
  pbf_builder<field::HParams> hparams(content);
  {
    pbf_builder<field::SessionEnd> session(hparams, field::HParams::session_end_info);
    session.add_enum(field::SessionEnd::status, hparams_status::success);
    session.add_double(field::SessionEnd::end_time_secs, place.time);
  }
  return hparams_event(place, "_hparams_/session_end_info", content);
}

}  // namespace accrue::observe
