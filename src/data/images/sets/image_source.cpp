#include "data/images/sets/image_source.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/files/glob.h"
#include "data/files/suffix.h"
#include "data/images/transform/image_fit.h"
#include "data/sequence_batch.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

enum class ImageFileKind { folders, cifar, idx };

const char* kind_name(ImageFileKind kind) {
  if (kind == ImageFileKind::cifar) return "CIFAR records";
  return kind == ImageFileKind::idx ? "idx" : "an image";
}

std::array<std::uint8_t, 3> first_bytes(const FilePool& files, std::size_t file) {
  std::array<std::uint8_t, 3> bytes{};
  const auto count = std::min<std::int64_t>(std::ssize(bytes), files.bytes(file));
  files.read(file, 0,
             std::as_writable_bytes(std::span(bytes)).first(static_cast<std::size_t>(count)));
  return bytes;
}

ImageFileKind image_kind_of(const FilePool& files, std::size_t file, const std::string& what) {
  const fs::path& path = files.path(file);
  const auto bytes = first_bytes(files, file);
  if (bytes[0] == 0x1f && bytes[1] == 0x8b) {
    throw usage_error(what, "files that are not compressed", path.string() + ": gzip",
                      "gunzip of it");
  }
  if (suffix_of(path) == ".bin") return ImageFileKind::cifar;
  const bool is_named_idx = path.filename().string().find("idx") != std::string::npos &&
                            path.filename().string().ends_with("ubyte");
  const bool has_magic = bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 8;
  return is_named_idx || has_magic ? ImageFileKind::idx : ImageFileKind::folders;
}

ImageFileKind common_kind(const std::vector<fs::path>& paths, const std::string& what) {
  const FilePool files(paths, what);
  const ImageFileKind first = image_kind_of(files, 0, what);
  for (std::size_t file = 1; file < files.count(); ++file) {
    const ImageFileKind kind = image_kind_of(files, file, what);
    if (kind == first) continue;
    throw usage_error(what, "image files of one kind",
                      files.path(0).string() + " (" + kind_name(first) + ") beside " +
                          files.path(file).string() + " (" + kind_name(kind) + ")",
                      "globs that match only one of them");
  }
  return first;
}

std::unique_ptr<ImageStore> open_store(const FoundFiles& found, const ImageOptions& options,
                                       const std::string& what) {
  std::vector<fs::path> used = without(found.files, options.excluded, what);
  const ImageFileKind kind = common_kind(used, what);
  if (!options.masks.empty()) {
    if (kind == ImageFileKind::folders) return open_masked_images(found.files, options, what);
    throw usage_error("data.masks", "images in files of their own (PNG, JPEG)", kind_name(kind),
                      "leaving it out: these files tell a class for each image");
  }
  if (kind == ImageFileKind::cifar) return open_cifar(std::move(used), options, what);
  if (kind == ImageFileKind::idx) return open_idx(std::move(used), options, what);
  return open_image_folders(found, options, what);
}

/// Throws a usage Error if images of this shape cannot be augmented like this.
void check_augment(const Augment& augment, const ImageShape& shape) {
  if (augment.pad >= std::min(shape.height, shape.width))
    throw usage_error("data.augment.pad", "fewer pixels than images have (" + text_of(shape) + ")",
                      std::to_string(augment.pad), "an eighth of the side, as is usual");
  if (shape.channels == 1 && (augment.saturation > 0 || augment.hue > 0))
    throw usage_error("data.augment", "brightness and contrast alone, where images are grey",
                      augment.hue > 0 ? "hue" : "saturation", "leaving it out");
}

class ImageSource final : public Source {
 public:
  ImageSource(std::unique_ptr<const ImageStore> store, const ImageOptions& options,
              std::string what)
      : store_(std::move(store)),
        decision_(decide_image_shape(store_->shapes(), options.shape)),
        augment_(options.augment),
        seed_(options.seed),
        what_(std::move(what)) {
    check_augment(augment_, decision_.shape);
  }

  std::int64_t size() const override { return store_->size(); }
  std::int64_t vocab() const override { return std::ssize(store_->classes()); }
  std::int64_t tokens(std::int64_t) const override { return 1; }
  std::optional<std::int64_t> uniform_tokens() const override { return 1; }
  std::optional<ImageShape> image_shape() const override { return decision_.shape; }
  Decoding decoding() const override { return store_->decoding(); }
  bool has_masks() const override { return store_->has_masks(); }
  std::vector<std::string> classes() const override { return store_->classes(); }
  std::optional<std::int64_t> class_of(std::int64_t index) const override {
    require_index(index, size());
    return store_->label(index);
  }
  void check_contents() const override { store_->check_contents(); }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks = store_->remarks();
    for (std::string& remark : remarks) remark.insert(0, "of " + what_ + ", ");
    if (!decision_.reason.empty()) remarks.push_back("of " + what_ + ", " + decision_.reason);
    if (augment_.changes_anything())
      remarks.push_back("in training, images are changed at random: " + augment_in_words(augment_));
    return remarks;
  }
  std::string fingerprint() const override { return store_->fingerprint(); }
  std::vector<DataFile> files() const override { return store_->files(); }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    return fetch_as_drawn(indices, {});
  }

  batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                std::span<const std::int64_t> draws) const override {
    return fetch_as_drawn(indices, augment_.changes_anything() ? draws : Draws{});
  }

 private:
  using Draws = std::span<const std::int64_t>;

  /// The output of a micro-batch's samples, row by row, and buffers that are reused.
  struct Rows {
    float* inputs;
    std::int64_t* targets;
    DecodedImage image, mask;
    std::vector<std::uint8_t> planes, classes;
  };

  /// Changes each image by its draw; without draws there are no changes.
  batch::MicroBatch fetch_as_drawn(std::span<const std::int64_t> indices, Draws draws) const {
    const ImageShape& shape = decision_.shape;
    const std::int64_t count = std::ssize(indices);
    batch::MicroBatch micro;
    micro.inputs = at::empty({count, shape.channels, shape.height, shape.width}, at::kFloat);
    micro.targets = has_masks() ? at::empty({count, shape.height, shape.width}, at::kLong)
                                : at::empty({count}, at::kLong);
    Rows rows{.inputs = micro.inputs.mutable_data_ptr<float>(),
              .targets = micro.targets.mutable_data_ptr<std::int64_t>(),
              .image = {},
              .mask = {},
              .planes = std::vector<std::uint8_t>(static_cast<std::size_t>(values())),
              .classes = {}};
    for (std::int64_t place = 0; place < count; ++place) {
      const auto i = static_cast<std::size_t>(place);
      require_index(indices[i], size());
      std::string failure;
      if (add(indices[i], draws.empty() ? std::nullopt : std::optional(draws[i]), rows, failure))
        micro.sample_ids.push_back(place);
      else if (!failure.empty())
        micro.unreadable.push_back(
            {place, store_->name(indices[i]) + " does not decode: " + failure});
    }
    micro.tokens = std::ssize(micro.sample_ids);
    if (micro.tokens == count) {
      micro.sample_ids.clear();
    } else {
      micro.inputs = micro.inputs.narrow(0, 0, micro.tokens);
      micro.targets = micro.targets.narrow(0, 0, micro.tokens);
    }
    return micro;
  }

  /// Writes the next row; returns whether there is one: there is none for an image that is excluded
  /// or does not decode.
  bool add(std::int64_t index, std::optional<std::int64_t> draw, Rows& rows,
           std::string& failure) const {
    ImageRead read = store_->read(index, rows.image);
    if (read.label && has_masks()) read.failure = store_->read_mask(index, rows.mask);
    failure = std::move(read.failure);
    if (!read.label || !failure.empty()) return false;
    const ImageShape& shape = decision_.shape;
    ImageChange change;
    if (draw) change = draw_change(augment_, {seed_, *draw}, rows.image.shape, shape);
    fit_changed_image(rows.image, shape, change, rows.planes);
    normalise_image(rows.planes, rows.inputs);
    if (change.erased) erase_box(*change.erased, shape, std::span(rows.inputs, rows.planes.size()));
    rows.inputs += values();
    if (has_masks())
      add_classes(change, rows);
    else
      *rows.targets++ = *read.label;
    return true;
  }

  void add_classes(const ImageChange& change, Rows& rows) const {
    const ImageShape& shape = decision_.shape;
    rows.classes.resize(static_cast<std::size_t>(shape.height * shape.width));
    fit_changed_mask(rows.mask, shape, change, rows.classes);
    for (const std::uint8_t number : rows.classes)
      *rows.targets++ = number == ignored_class ? ignored_target : std::int64_t{number};
  }

  /// The number of values of one image.
  std::int64_t values() const {
    const ImageShape& shape = decision_.shape;
    return shape.channels * shape.height * shape.width;
  }

  std::unique_ptr<const ImageStore> store_;
  ShapeDecision decision_;
  Augment augment_;
  std::uint64_t seed_;
  std::string what_;  ///< the config key of its files
};

}  // namespace

std::string text_of(const ImageShape& shape) {
  return std::to_string(shape.channels) + " x " + std::to_string(shape.height) + " x " +
         std::to_string(shape.width);
}

std::unique_ptr<Source> open_images(const FoundFiles& found, const ImageOptions& options,
                                    const std::string& what) {
  return std::make_unique<ImageSource>(open_store(found, options, what), options, what);
}

}  // namespace accrue::data
