#include "train/window/layered/model_division.h"

#include <algorithm>
#include <cstddef>

#include "accrue/memory/shard_scope.h"

namespace accrue::train {

distributed::ModelDivision division_of(models::Trainable& model, const NamedParameters& trained) {
  distributed::ModelDivision division{
      .segments = {}, .divided = std::vector<bool>(trained.size()), .reads = {}};
  for (const models::Segment& segment : model.segments()) division.reads.push_back(segment.weights);
  // Passes before may have made copies, which are listed in the place of their parameters.
  std::vector<at::Tensor> parameters;
  for (const NamedParameter& parameter : model.parameters()) parameters.push_back(parameter.tensor);
  distributed::give_up_copies(division.reads, parameters);
  for (const auto& reads : division.reads) {
    std::vector<std::size_t>& entries = division.segments.emplace_back();
    if (!reads) continue;
    for (const at::Tensor& weight : reads()) {
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
