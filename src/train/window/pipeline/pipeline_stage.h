#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/distributed/group.h"
#include "accrue/models/trainable.h"

namespace accrue::train {

/// The part of a model's chain that one rank of a pipeline runs.
struct PipelineStage {
  std::shared_ptr<distributed::Group> group;  ///< whose rank i is stage i
  std::vector<models::Segment> segments;
  std::string division;  ///< which stage has which segments, in words

  std::int64_t index() const { return group->rank(); }
  std::int64_t count() const { return group->world(); }
  bool is_first() const { return index() == 0; }
  bool is_last() const { return index() + 1 == count(); }
};

/// Cuts the model before blocks (Segment::begins_block) such that all stages take about equally
/// long, by the forward times that rank 0 measures on `micro` and sends to the others. Collective.
/// Throws a usage Error if the model has fewer blocks than there are ranks.
PipelineStage make_pipeline_stage(std::shared_ptr<distributed::Group> group,
                                  models::Trainable& model, const batch::MicroBatch& micro);

}  // namespace accrue::train
