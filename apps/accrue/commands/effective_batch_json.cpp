#include "commands/effective_batch_json.h"

namespace accrue::cli {

nlohmann::json effective_batch_json(const train::EffectiveBatch& batch) {
  nlohmann::json out{{"micro_batch", batch.micro_batch()},
                     {"accumulation_steps", batch.accumulation_steps()},
                     {"ranks", batch.by_rank.size()},
                     {"samples", batch.samples()}};
  if (batch.tokens > 0) out["tokens"] = batch.tokens;
  if (batch.is_product()) return out;
  for (const train::RankBatch& rank : batch.by_rank)
    out["by_rank"].push_back({{"samples", rank.samples},
                              {"micro_batch", rank.micro_batch},
                              {"accumulation_steps", rank.accumulation_steps()}});
  return out;
}

}  // namespace accrue::cli
