#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "accrue/data/source.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

struct ClassProbability {
  std::int64_t index = 0;
  std::string name;  ///< its number if the run does not name its classes
  double probability = 0;
};

/// A model's result for one image.
struct Prediction {
  std::filesystem::path file;
  std::vector<ClassProbability> top;  ///< the likeliest first; of equal ones the lower number
  std::string failure;                ///< why the file could not be read; `top` is empty then
};

/// A trained image model (vit, resnet, torchscript), loaded from a checkpoint.
class Classifier {
 public:
  /// Throws a usage Error if the model is not an image model.
  explicit Classifier(TrainedModel trained);

  /// Calls `told` for each file, in order, with at most `most` classes each. Images are read by the
  /// rules of data::open_source(), resized to the shape that the model was trained on, and run at
  /// most 64 or a million values at a time. A file that cannot be read is reported as such. Throws
  /// a runtime Error if the model's output is not finite.
  void predict(std::span<const std::filesystem::path> files, std::int64_t most,
               const std::function<void(const Prediction&)>& told);

 private:
  std::vector<Prediction> predict_together(std::span<const std::filesystem::path> files,
                                           std::int64_t most);
  std::vector<ClassProbability> likeliest(const double* probabilities, std::int64_t classes,
                                          std::int64_t most) const;

  TrainedModel trained_;
  data::ImageShape shape_;
};

}  // namespace accrue::train
