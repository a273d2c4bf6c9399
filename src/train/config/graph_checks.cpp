#include "train/config/graph_checks.h"

#include <string>

#include "accrue/core/error.h"
#include "core/words.h"
#include "train/config/gradient_folding.h"

namespace accrue::train {

void check_graphs(const Config& config, const StatedKeys& stated) {
  if (!config.run.graphs) return;
  const auto refuse = [&](const std::string& other, const std::string& suggestion) {
    throw usage_error(where(stated, "run.graphs"), "false with " + other, "true", suggestion);
  };
  const std::string masks = ", whose masks differ between micro-batches";
  if (config.model.dropout > 0) refuse("model.dropout" + masks, "dropout = 0");
  if (config.model.lora.is_on() && config.model.lora.adapters.dropout > 0)
    refuse("lora.dropout" + masks, "dropout = 0");
  if (config.loss.cross_entropy != CrossEntropy::fused)
    refuse("loss.cross_entropy = \"plain\", which looks at labels as it runs",
           "cross_entropy = \"fused\"");
  if (models::is_of_pairs(config.loss.kind))
    refuse("loss.kind = " + in_quotes(to_string(config.loss.kind)) +
               ", for which the host looks at each pair",
           "graphs = false");
  if (config.precision.accumulate != accum::Accumulation::fp32)
    refuse("precision.accumulate = " + in_quotes(to_string(config.precision.accumulate)) +
               ", for which the host looks at each micro-batch",
           "accumulate = \"fp32\"");
  if (folds_gradients(config))
    refuse("gradients that are folded into the optimizer", "memory.gradients = \"buffer\"");
}

}  // namespace accrue::train
