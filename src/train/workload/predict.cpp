#include "train/workload/predict.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "accrue/core/error.h"
#include "accrue/models/trainable.h"
#include "data/images/sets/image_files.h"

namespace accrue::train {
namespace {

constexpr std::size_t most_images_together = 64;
constexpr std::int64_t most_values_together = 1 << 20;

data::ImageShape image_shape_of_model(const TrainedModel& trained) {
  const std::vector<std::int64_t>& image = trained.config.model.image;
  if (!trained.config.data.masks.empty())
    throw usage_error(
        "predict", "a run whose images have a class each", "one of images with masks (data.masks)",
        "accrue export, whose README.md has the Python that makes a mask of an image");
  if (image.size() == 3) return {image[0], image[1], image[2]};
  throw usage_error("predict", "a run of images",
                    "one of text or tokens (model.kind \"" + trained.model->kind() + "\")",
                    "accrue sample, which continues a text");
}

/// Throws if the input of the model's first loss is not the logits of classes.
void expect_classifier(const Config& config) {
  const std::vector<models::ScriptLoss>& heads = config.loss.heads;
  const bool is_classifier =
      config.loss.method.empty() &&
      (heads.empty() || heads.front().kind == models::ScriptLossKind::cross_entropy);
  if (is_classifier) return;
  throw usage_error("predict", "a run whose first loss is the cross-entropy of its classes",
                    config.loss.method.empty() ? "loss.heads that begin with another"
                                               : "a module with a loss of its own (loss.method)",
                    "torch.jit.load on what accrue export writes");
}

/// Softmax of the logits [B, K] in fp64.
at::Tensor probabilities_of(models::Model& model, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  batch::MicroBatch micro;
  micro.inputs = images;
  micro.targets = at::zeros({images.size(0)}, at::kLong);
  micro.sample_ids.resize(static_cast<std::size_t>(images.size(0)));
  std::iota(micro.sample_ids.begin(), micro.sample_ids.end(), 0);
  micro.tokens = images.size(0);
  const at::Tensor logits =
      models::run_segments(model, micro, batch::evaluation_context(micro)).at(0);
  return at::softmax(logits.to(at::kDouble), -1).contiguous();
}

/// Throws if a run has diverged: the outputs of its weights have no order.
void expect_finite(const at::Tensor& probabilities, const TrainedModel& trained) {
  if (at::isfinite(probabilities).all().item<bool>()) return;
  throw runtime_error("predict", "probabilities of classes",
                      "values that are not finite from " + trained.checkpoint.string(),
                      "--checkpoint with an earlier step, or training again");
}

}  // namespace

Classifier::Classifier(TrainedModel trained)
    : trained_(std::move(trained)), shape_(image_shape_of_model(trained_)) {
  expect_classifier(trained_.config);
}

void Classifier::predict(std::span<const std::filesystem::path> files, std::int64_t most,
                         const std::function<void(const Prediction&)>& told) {
  const std::int64_t values = shape_.channels * shape_.height * shape_.width;
  const auto together = std::clamp<std::size_t>(
      static_cast<std::size_t>(most_values_together / values), 1, most_images_together);
  while (!files.empty()) {
    const auto some = files.first(std::min(together, files.size()));
    for (const Prediction& prediction : predict_together(some, most)) told(prediction);
    files = files.subspan(some.size());
  }
}

std::vector<Prediction> Classifier::predict_together(std::span<const std::filesystem::path> files,
                                                     std::int64_t most) {
  std::vector<Prediction> predictions;
  std::vector<at::Tensor> images;
  for (const std::filesystem::path& file : files) {
    data::ReadImage image = data::read_image(file, shape_);
    if (image.failure.empty()) images.push_back(std::move(image.values));
    predictions.push_back({.file = file, .top = {}, .failure = std::move(image.failure)});
  }
  if (images.empty()) return predictions;
  const at::Tensor probabilities = probabilities_of(*trained_.model, at::stack(images));
  expect_finite(probabilities, trained_);
  const std::int64_t classes = probabilities.size(-1);
  const auto* row = probabilities.const_data_ptr<double>();
  for (Prediction& prediction : predictions) {
    if (!prediction.failure.empty()) continue;
    prediction.top = likeliest(row, classes, most);
    row += classes;
  }
  return predictions;
}

std::vector<ClassProbability> Classifier::likeliest(const double* probabilities,
                                                    std::int64_t classes, std::int64_t most) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(classes));
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(most, classes);
  std::partial_sort(order.begin(), end, order.end(), [&](std::int64_t a, std::int64_t b) {
    return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b;
  });
  std::vector<ClassProbability> top;
  for (auto index = order.begin(); index != end; ++index)
    top.push_back({*index, class_name(trained_.config.model, *index), probabilities[*index]});
  return top;
}

}  // namespace accrue::train
