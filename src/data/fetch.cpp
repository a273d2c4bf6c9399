#include "accrue/data/fetch.h"

#include <utility>

namespace accrue::data {

batch::MicroBatch fetch_as(const Source& source, std::span<const std::int64_t> indices,
                           std::vector<std::int64_t> ids) {
  batch::MicroBatch micro = source.fetch(indices);
  for (std::size_t i = 0; i < micro.spans.size(); ++i) micro.spans[i].sample_id = ids[i];
  micro.sample_ids = std::move(ids);
  return micro;
}

}  // namespace accrue::data
