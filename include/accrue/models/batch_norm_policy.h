#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// The handling of batch normalisations.
enum class BatchNormPolicy {
  error,             ///< refuse, and explain the alternatives
  convert_group,     ///< convert to another norm
  convert_layer,     //
  convert_instance,  //
  exact,             ///< the window's statistics, segment by segment (train/window/layered)
  micro,             ///< the statistics of each micro-batch: not the full batch's gradient
};
/// The words of model.batchnorm.
inline constexpr auto batch_norm_policy_words =
    enum_words<BatchNormPolicy>({{BatchNormPolicy::error, "error"},
                                 {BatchNormPolicy::convert_group, "convert-group"},
                                 {BatchNormPolicy::convert_layer, "convert-layer"},
                                 {BatchNormPolicy::convert_instance, "convert-instance"},
                                 {BatchNormPolicy::exact, "exact"},
                                 {BatchNormPolicy::micro, "micro"}});
constexpr std::string_view to_string(BatchNormPolicy policy) {
  return batch_norm_policy_words.of(policy);
}

}  // namespace accrue::models
