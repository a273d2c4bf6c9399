#include "train/workload/layered_model.h"

#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/custom.h"
#include "train/config/accumulation_order.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

void check_segments(const LayeredKey& order, models::Trainable& model) {
  const std::vector<models::Segment> segments = model.segments();
  if (segments.size() > 1) return;
  throw usage_error(order.name, "a model in several segments",
                    "one that cannot be cut: '" + segments.at(0).name + "' runs as a whole",
                    order.without);
}

void check_is_offloaded_whole(const Config& config, const LayeredKey& order,
                              const models::Trainable& model) {
  for (const NamedParameter& parameter : model.parameters())
    if (!parameter.tensor.requires_grad())
      throw usage_error(order.name,
                        "a model of which all parameters are trained: frozen ones are not "
                        "offloaded in this version",
                        parameter.name + ", which is frozen", order.without);
  if (config.custom && config.custom->optimizer)
    throw usage_error(
        order.name, "an optimizer of accrue, which steps through the state in parts",
        "an optimizer of the program's own",
        "optim.kind in place of accrue::train::Custom::optimizer, or " + order.without);
  if (const c10::Device device = device_of(config); !device.is_cpu())
    throw usage_error(order.name, "a run on the CPU, in whose memory the offloaded state is mapped",
                      "run.device = \"auto\", which took " + device.str(),
                      "run.device = \"cpu\", or " + order.without);
}

}  // namespace

void check_layered_model(const Config& config, models::Trainable& model) {
  if (!asks_for_layered(config)) return;
  const LayeredKey order = layered_key(config).value();
  check_segments(order, model);
  if (!config.memory.offload.empty()) check_is_offloaded_whole(config, order, model);
}

}  // namespace accrue::train
