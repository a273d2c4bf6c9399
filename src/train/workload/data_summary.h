#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::train {

/// Input tokens of samples.
struct LengthSummary {
  std::int64_t least = 0, median = 0, most = 0;  ///< for an even number the lower median
  double mean = 0;
};

/// Consecutive tokens of a sample that are all learned or all not.
struct ShownPart {
  std::string text;  ///< decoded; ids with spaces between if there is no tokenizer
  std::int64_t tokens = 0;
  bool is_learned = false;
  std::string sequence;  ///< of a pair "chosen" or "rejected"; else empty
};

struct ShownSample {
  std::int64_t index = 0;
  std::vector<ShownPart> parts;
};

/// A source of a mixture.
struct SourceSummary {
  std::string path;  ///< the pattern of its files
  double weight = 0;
  std::int64_t samples = 0, tokens = 0;
};

/// The shape to which images are resized, and the classes' names: of images, or of pixels if there
/// are masks.
struct ImageSummary {
  data::ImageShape shape;
  std::vector<std::string> classes;
  bool has_masks = false;
};

/// A summary of the data.
struct DataSummary {
  std::int64_t samples = 0;
  std::optional<ImageSummary> images;  ///< if samples are images; no tokens are counted then
  std::int64_t tokens = 0;             ///< inputs
  std::int64_t learned = 0;            ///< targets whose loss counts
  LengthSummary lengths;
  std::int64_t duplicates = 0;         ///< samples with the tokens and targets of an earlier one
  std::vector<SourceSummary> sources;  ///< if they have weights
  std::vector<ShownSample> shown;
  std::vector<std::string> remarks;
};

/// The first batch of a run.
struct WindowSummary {
  std::int64_t samples = 0, tokens = 0, learned = 0;
  std::int64_t micro_batch = 0;  ///< in samples: as stated, else all
  double padding = 0;            ///< the share of padding in its micro-batches
  std::int64_t windows_per_epoch = 0;
};

struct DataReport {
  DataSummary train;
  std::optional<DataSummary> val;
  WindowSummary window;
  std::int64_t vocab = 0;  ///< 0: not known from the files
};

/// Reads all of a config's text, tokens or JSON lines once and sums them up; shows `shown` samples
/// of each, evenly spread. Of images it reads the headers. Throws a usage Error if the data are
/// wrong.
DataReport summarize_data(const Config& config, std::int64_t shown, const ShowProgress& show = {});

}  // namespace accrue::train
