#pragma once

#include <cstdint>
#include <protozero/types.hpp>

/// The fields of TensorBoard's messages that we write, by their numbers, with the file that defines
/// them.
namespace accrue::observe {

namespace field {

using protozero::pbf_tag_type;

/// tensorboard/compat/proto/event.proto
enum class Event : pbf_tag_type {
  wall_time = 1,
  step = 2,
  file_version = 3,
  summary = 5,
  session_log = 7,
  source_metadata = 10,
};
enum class SourceMetadata : pbf_tag_type { writer = 1 };
enum class SessionLog : pbf_tag_type { status = 1 };

/// tensorboard/compat/proto/summary.proto
enum class Summary : pbf_tag_type { value = 1 };
enum class SummaryValue : pbf_tag_type {
  tag = 1,
  simple_value = 2,
  histo = 5,
  tensor = 8,
  metadata = 9,
};
enum class SummaryMetadata : pbf_tag_type { plugin_data = 1 };
enum class PluginData : pbf_tag_type { plugin_name = 1, content = 2 };

/// tensorboard/compat/proto/histogram.proto
enum class Histogram : pbf_tag_type {
  min = 1,
  max = 2,
  num = 3,
  sum = 4,
  sum_squares = 5,
  bucket_limit = 6,
  bucket = 7,
};

/// tensorboard/compat/proto/tensor.proto and tensor_shape.proto
enum class Tensor : pbf_tag_type { dtype = 1, tensor_shape = 2, string_val = 8 };
enum class TensorShape : pbf_tag_type { dim = 2 };
enum class Dimension : pbf_tag_type { size = 1 };

/// tensorboard/plugins/hparams/plugin_data.proto
enum class HParams : pbf_tag_type { session_start_info = 3, session_end_info = 4 };
enum class SessionStart : pbf_tag_type { hparams = 1, start_time_secs = 5 };
enum class SessionEnd : pbf_tag_type { status = 1, end_time_secs = 2 };
/// An entry of a map, and google/protobuf/struct.proto's Value.
enum class MapEntry : pbf_tag_type { key = 1, value = 2 };
enum class AnyValue : pbf_tag_type { number_value = 2, string_value = 3, bool_value = 4 };

}  // namespace field

/// SessionLog.SessionStatus
namespace session_status {
inline constexpr std::int32_t start = 1;
}
/// Status of tensorboard/plugins/hparams/api.proto
namespace hparams_status {
inline constexpr std::int32_t success = 1;
}
/// DataType of tensorboard/compat/proto/types.proto
namespace data_type {
inline constexpr std::int32_t float32 = 1;
inline constexpr std::int32_t string = 7;
}  // namespace data_type

}  // namespace accrue::observe
