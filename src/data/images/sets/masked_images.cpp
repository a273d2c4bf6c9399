#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "data/files/fingerprint.h"
#include "data/files/glob.h"
#include "data/images/decode/image_file.h"
#include "data/images/decode/image_mask.h"
#include "data/images/sets/image_store.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t no_mask = 0;  // the first file is an image

/// For each 8-bit number a mask that contains it, or no_mask.
using Numbers = std::array<std::size_t, 256>;

std::vector<std::string> numbered(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

/// The masks of `images`, none of which belongs to another source's image.
std::vector<fs::path> own_masks(const std::vector<fs::path>& images, const ImageOptions& options) {
  std::vector<fs::path> all = images;
  const std::set<fs::path> own(images.begin(), images.end());
  for (const fs::path& other : options.other_images)
    if (!own.contains(other)) all.push_back(other);
  std::vector<fs::path> masks = masks_of(all, expand_globs(options.masks, "data.masks"));
  masks.resize(images.size());
  return masks;
}

/// Images with a mask each. The files are the images, then their masks; excluded ones have none.
class MaskedImages final : public ImageStore {
 public:
  MaskedImages(const std::vector<fs::path>& images, const ImageOptions& options,
               const std::string& what)
      : count_(images.size()), is_training_(options.classes.empty()) {
    std::vector<fs::path> used, files = images;
    for (const fs::path& image : images) {
      const bool is_excluded = options.excluded.contains(image);
      masks_.push_back(is_excluded ? no_mask : images.size() + used.size());
      if (!is_excluded) used.push_back(image);
    }
    for (fs::path& mask : own_masks(used, options)) files.push_back(std::move(mask));
    files_ = std::make_unique<const FilePool>(std::move(files), what);
    take_headers(what);
    classes_ = options.classes;
    if (classes_.empty() && options.class_bound > 0) classes_ = numbered(options.class_bound);
    if (classes_.empty()) classes_ = numbered(highest_class() + 1);  // reads all masks
    fingerprint_.emplace("images, masks", *files_,
                         std::vector{std::to_string(classes_.size()) + " classes"});
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(count_); }
  ShapeCounts shapes() const override { return shapes_; }
  Decoding decoding() const override { return decoding_; }
  std::vector<std::string> classes() const override { return classes_; }
  bool has_masks() const override { return true; }
  std::string fingerprint() const override { return fingerprint_->text(); }
  std::vector<DataFile> files() const override { return fingerprint_->files(); }

  ImageRead read(std::int64_t index, DecodedImage& image) const override {
    const auto file = static_cast<std::size_t>(index);
    if (masks_[file] == no_mask) return {};
    std::string failure = decode_image_file(*files_, file, image);
    if (!failure.empty()) return {.label = {}, .failure = std::move(failure)};
    return {.label = 0, .failure = {}};
  }

  std::string read_mask(std::int64_t index, DecodedImage& mask) const override {
    const std::size_t file = masks_[static_cast<std::size_t>(index)];
    std::string failure = decode_mask_file(*files_, file, mask);
    if (!failure.empty()) return files_->path(file).string() + ": " + failure;
    expect_classes(file, mask);
    return "";
  }

  std::string name(std::int64_t index) const override {
    return files_->path(static_cast<std::size_t>(index)).string();
  }

  /// Held-out masks may lack classes; training masks must not all be of one class.
  void check_contents() const override {
    const Numbers& found = numbers_in_masks();
    expect_classes(found);
    if (is_training_) expect_several(found);
  }

 private:
  void take_headers(const std::string& what) {
    for (std::size_t image = 0; image < count_; ++image) {
      if (masks_[image] == no_mask) continue;
      const ImageHeader header = require_image_header(*files_, image, what);
      ++shapes_[header.shape];
      const ImageHeader of_mask = mask_header(image, header.shape);
      Decoding decoding = decoding_of(*files_, image, header);
      decoding.bytes += decoding_of(*files_, masks_[image], of_mask).bytes;
      decoding_ = larger(decoding_, std::move(decoding));
    }
  }

  /// The header of an image's mask, which must be valid.
  ImageHeader mask_header(std::size_t image, const ImageShape& shape) const {
    const std::size_t mask = masks_[image];
    const std::string name = files_->path(mask).string();
    const std::string problem = why_no_mask_file(*files_, mask);
    if (!problem.empty())
      throw usage_error("data.masks", "PNG files whose pixels are numbers of at most 8 bits",
                        name + ": " + problem,
                        "saving the class of each pixel as grey or as a palette's index");
    const ImageHeader header = require_image_header(*files_, mask, "data.masks");
    const ImageShape& its = header.shape;
    if (its.height == shape.height && its.width == shape.width) return header;
    const auto size = [](const ImageShape& of) {
      return std::to_string(of.height) + " x " + std::to_string(of.width);
    };
    throw usage_error("data.masks", "a mask of its image's size, " + size(shape),
                      name + ": " + size(its) + ", of " + files_->path(image).string(),
                      "the mask that was drawn for this image");
  }

  /// The numbers in all masks, which are read once, on all threads. A mask that does not decode is
  /// reported when it is fetched.
  const Numbers& numbers_in_masks() const {
    std::call_once(read_, [&] {
      std::mutex mutex;  // guards numbers_
      at::parallel_for(0, size(), 1, [&](std::int64_t begin, std::int64_t end) {
        const Numbers found = numbers_in(begin, end);
        const std::lock_guard lock(mutex);
        for (std::size_t i = 0; i < found.size(); ++i)
          if (found[i] != no_mask) numbers_[i] = found[i];
      });
    });
    return numbers_;
  }

  /// The numbers in the masks of images [begin, end).
  Numbers numbers_in(std::int64_t begin, std::int64_t end) const {
    Numbers found{};
    DecodedImage mask;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::size_t file = masks_[static_cast<std::size_t>(i)];
      if (file == no_mask || !decode_mask_file(*files_, file, mask).empty()) continue;
      for (const std::uint8_t number : mask.bytes) found[number] = file;
    }
    return found;
  }

  std::int64_t highest_class() const {
    const Numbers& found = numbers_in_masks();
    expect_several(found);
    std::int64_t highest = ignored_class - 1;
    while (found[static_cast<std::size_t>(highest)] == no_mask) --highest;
    return highest;
  }

  void expect_several(const Numbers& found) const {
    for (std::size_t i = 1; i < ignored_class; ++i)
      if (found[i] != no_mask) return;
    throw usage_error(
        "data.masks", "pixels of at least two classes, which are numbered from 0",
        found[ignored_class] ? "masks of 0 and 255 alone, and 255 is ignored" : "masks of 0 alone",
        "1, 2, ... for what is not background");
  }

  /// The first pixel of a class beyond the existing ones; the end if there is none.
  auto beyond_classes(const DecodedImage& mask) const {
    return std::ranges::find_if(mask.bytes, [bound = std::ssize(classes_)](std::uint8_t number) {
      return number != ignored_class && number >= bound;
    });
  }

  void expect_classes(std::size_t file, const DecodedImage& mask) const {
    const auto pixel = beyond_classes(mask);
    if (pixel == mask.bytes.end()) return;
    const std::int64_t place = pixel - mask.bytes.begin();
    throw usage_error("read " + files_->path(file).string(),
                      "classes below " + std::to_string(classes_.size()) + ", or 255 (ignored)",
                      std::to_string(*pixel) + " at row " +
                          std::to_string(place / mask.shape.width) + ", column " +
                          std::to_string(place % mask.shape.width),
                      "a larger model.vocab, or masks of the classes of the training data");
  }

  void expect_classes(const Numbers& found) const {
    std::size_t bad = no_mask;
    for (std::size_t number = classes_.size(); number < ignored_class; ++number)
      bad = std::max(bad, found[number]);
    if (bad == no_mask) return;
    DecodedImage mask;
    decode_mask_file(*files_, bad, mask);
    expect_classes(bad, mask);
  }

  std::size_t count_;
  bool is_training_;                ///< the classes are not those of other data
  std::vector<std::size_t> masks_;  ///< for each image the file of its mask, or no_mask
  std::unique_ptr<const FilePool> files_;
  ShapeCounts shapes_;
  Decoding decoding_;
  std::vector<std::string> classes_;
  std::optional<Fingerprint> fingerprint_;
  mutable std::once_flag read_;
  mutable Numbers numbers_{};  ///< valid once all masks were read
};

}  // namespace

std::unique_ptr<ImageStore> open_masked_images(std::vector<fs::path> paths,
                                               const ImageOptions& options,
                                               const std::string& what) {
  return std::make_unique<MaskedImages>(paths, options, what);
}

}  // namespace accrue::data
