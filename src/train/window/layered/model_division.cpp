#include "train/window/layered/model_division.h"

#include <algorithm>
#include <cstddef>

#include "accrue/memory/shard_scope.h"

namespace accrue::train {

distributed::ModelDivision division_of(models::Trainable& model, const NamedParameters& trained) {
  distributed::ModelDivision division{.segments = {}, .divided = std::vector<bool>(trained.size())};
  for (const models::Segment& segment : model.segments()) {
    std::vector<std::size_t>& entries = division.segments.emplace_back();
    division.reads.push_back(segment.weights);
    if (!segment.weights) continue;
    for (const at::Tensor& weight : segment.weights()) {
      if (!memory::is_in_shard_scope(weight)) continue;
      const auto found = std::ranges::find_if(trained, [&](const NamedParameter& parameter) {
        return parameter.tensor.is_same(weight);
      });
      if (found == trained.end()) continue;
      const auto entry = static_cast<std::size_t>(found - trained.begin());
      division.divided[entry] = true;
      if (std::ranges::find(entries, entry) == entries.end()) entries.push_back(entry);
    }
  }
  return division;
}

}  // namespace accrue::train
