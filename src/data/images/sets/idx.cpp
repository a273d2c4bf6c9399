#include <algorithm>
#include <array>
#include <utility>

#include "data/files/fingerprint.h"
#include "data/images/sets/image_store.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

bool replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.rfind(from);
  if (at == text.npos) return false;
  text.replace(at, from.size(), to);
  return true;
}

bool is_labels(const fs::path& path) {
  return path.filename().string().find("labels") != std::string::npos;
}

/// X-images-idx3-ubyte and its X-labels-idx1-ubyte, one after the other.
std::vector<fs::path> with_labels(const std::vector<fs::path>& paths, const std::string& what) {
  std::vector<fs::path> pairs;
  for (const fs::path& path : paths) {
    if (is_labels(path)) continue;
    std::string name = path.filename().string();
    if (!replace(name, "images", "labels")) {
      throw usage_error(what, "idx files named like train-images-idx3-ubyte", path.string(),
                        "that name, and train-labels-idx1-ubyte beside it");
    }
    replace(name, "idx3", "idx1");
    const fs::path labels = path.parent_path() / name;
    std::error_code ignored;
    if (!fs::is_regular_file(labels, ignored)) {
      throw usage_error(what, "the labels of " + path.string(), "no " + labels.string(),
                        "putting it beside the images");
    }
    pairs.push_back(path);
    pairs.push_back(labels);
  }
  if (pairs.empty()) {
    throw usage_error(what, "an idx file of images",
                      "only labels, the first being " + paths.front().string(),
                      "a glob that matches *images*");
  }
  return pairs;
}

class Idx final : public ImageStore {
 public:
  Idx(std::unique_ptr<const FilePool> files, const ImageOptions& options, const std::string& what)
      : files_(std::move(files)), fingerprint_("images, idx", *files_) {
    for (std::size_t file = 0; file < files_->count(); file += 2) {
      add_images(file, what);
      add_labels(file + 1, what);
    }
    if (labels_.empty()) {
      throw usage_error(what, "images", "none in " + files_->path(0).string(), "another file");
    }
    const bool are_known = !options.classes.empty();
    classes_ = are_known ? options.classes : found_classes(options.class_bound);
    number_classes();
    expect_labels_of(are_known ? "labels of the training data"
                               : "labels below " + std::to_string(classes_.size()),
                     what);
    if (!are_known) remark_on_gaps();
  }

  std::int64_t size() const override { return std::ssize(labels_); }
  ShapeCounts shapes() const override { return {{shape_, size()}}; }
  std::vector<std::string> classes() const override { return classes_; }
  std::optional<std::int64_t> label(std::int64_t index) const override {
    return numbers_[labels_[static_cast<std::size_t>(index)]];
  }
  std::vector<std::string> remarks() const override { return remarks_; }
  std::string fingerprint() const override { return fingerprint_.text(); }
  std::vector<DataFile> files() const override { return fingerprint_.files(); }

  ImageRead read(std::int64_t index, DecodedImage& image) const override {
    const auto pair = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) -
                                               ends_.begin());
    const std::int64_t position = index - (pair == 0 ? 0 : ends_[pair - 1]);
    image.shape = shape_;
    image.in_planes = true;
    image.bytes.resize(static_cast<std::size_t>(shape_.height * shape_.width));
    files_->read(2 * pair, images_header_bytes + position * std::ssize(image.bytes),
                 std::as_writable_bytes(std::span(image.bytes)));
    return {.label = label(index), .failure = {}};
  }

 private:
  static constexpr std::int64_t images_header_bytes = 16;
  static constexpr std::int64_t labels_header_bytes = 8;

  std::uint32_t word(std::size_t file, std::int64_t index) const {
    std::array<std::uint8_t, 4> bytes{};
    files_->read(file, 4 * index, std::as_writable_bytes(std::span(bytes)));
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | bytes[3];
  }

  Error refusal(std::size_t file, const std::string& expected, const std::string& received,
                const std::string& what) const {
    return usage_error(what, expected, files_->path(file).string() + ": " + received,
                       "getting the file again: it is truncated, corrupt or no such file");
  }

  /// The header's first dimension, after a check of magic number and size.
  std::int64_t check_header(std::size_t file, std::int64_t dimensions,
                            const std::string& what) const {
    const std::int64_t header_bytes = 4 + 4 * dimensions, bytes = files_->bytes(file);
    if (bytes < header_bytes) {
      throw refusal(file, "an idx header of " + std::to_string(header_bytes) + " bytes",
                    std::to_string(bytes) + " bytes", what);
    }
    const std::uint32_t magic = 0x0800 + static_cast<std::uint32_t>(dimensions);
    if (word(file, 0) != magic) {
      throw refusal(file,
                    "idx of bytes in " + std::to_string(dimensions) + " dimension(s), magic " +
                        std::to_string(magic),
                    "magic " + std::to_string(word(file, 0)), what);
    }
    // These are floating point because a corrupt header's product does not fit into an integer.
    double expected_bytes = static_cast<double>(header_bytes), product = 1;
    for (std::int64_t i = 1; i <= dimensions; ++i) product *= word(file, i);
    expected_bytes += product;
    if (expected_bytes != static_cast<double>(bytes)) {
      throw refusal(file, "as many bytes as its header says", std::to_string(bytes), what);
    }
    return word(file, 1);
  }

  void add_images(std::size_t file, const std::string& what) {
    const std::int64_t count = check_header(file, 3, what);
    const ImageShape shape{.channels = 1, .height = word(file, 2), .width = word(file, 3)};
    if (shape.height == 0 || shape.width == 0)
      throw refusal(file, "images that have pixels", text_of(shape), what);
    if (file == 0) shape_ = shape;
    if (shape != shape_) {
      throw usage_error(what, "images of one shape",
                        files_->path(0).string() + " (" + text_of(shape_) + ") beside " +
                            files_->path(file).string() + " (" + text_of(shape) + ")",
                        "globs that match only one of them");
    }
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + count);
  }

  void add_labels(std::size_t file, const std::string& what) {
    const std::int64_t count = check_header(file, 1, what), images = ends_.back() - size();
    if (count != images) {
      throw refusal(file, std::to_string(images) + " labels, one for each image",
                    std::to_string(count), what);
    }
    const std::size_t before = labels_.size();
    labels_.resize(before + static_cast<std::size_t>(count));
    files_->read(file, labels_header_bytes,
                 std::as_writable_bytes(std::span(labels_).subspan(before)));
  }

  /// The labels that occur; or if another number of classes is stated, all numbers below
  /// that.
  std::vector<std::string> found_classes(std::int64_t bound) const {
    std::array<bool, 256> occurs{};
    for (const std::uint8_t label : labels_) occurs[label] = true;
    std::vector<std::string> names;
    for (std::size_t label = 0; label < occurs.size(); ++label)
      if (occurs[label]) names.push_back(std::to_string(label));
    if (bound == 0 || bound == std::ssize(names)) return names;
    names.clear();
    for (std::int64_t number = 0; number < bound; ++number) names.push_back(std::to_string(number));
    return names;
  }

  void number_classes() {
    numbers_.fill(no_class);
    for (std::size_t label = 0; label < numbers_.size(); ++label) {
      const auto found = std::ranges::find(classes_, std::to_string(label));
      if (found != classes_.end()) numbers_[label] = found - classes_.begin();
    }
  }

  void expect_labels_of(const std::string& expected, const std::string& what) const {
    const auto bad = std::ranges::find(labels_, no_class,
                                       [this](std::uint8_t label) { return numbers_[label]; });
    if (bad == labels_.end()) return;
    const std::int64_t image = bad - labels_.begin();
    const auto pair =
        static_cast<std::size_t>(std::ranges::upper_bound(ends_, image) - ends_.begin());
    throw refusal(2 * pair + 1, expected,
                  std::to_string(*bad) + " of image " +
                      std::to_string(image - (pair == 0 ? 0 : ends_[pair - 1])),
                  what);
  }

  void remark_on_gaps() {
    if (classes_.back() == std::to_string(std::ssize(classes_) - 1)) return;
    const std::int64_t largest = *std::ranges::max_element(labels_);
    remarks_.push_back("the " + std::to_string(classes_.size()) +
                       " classes are the labels that occur, the largest of which is " +
                       std::to_string(largest) + "; model.vocab = " + std::to_string(largest + 1) +
                       " makes a class of each number");
  }

  static constexpr std::int64_t no_class = -1;

  std::unique_ptr<const FilePool> files_;  ///< images and labels alternately
  ImageShape shape_;
  std::vector<std::int64_t> ends_;  ///< number of images up to and including pair i
  std::vector<std::uint8_t> labels_;
  std::vector<std::string> classes_;
  std::array<std::int64_t, 256> numbers_{};  ///< of the classes, by their labels
  std::vector<std::string> remarks_;
  Fingerprint fingerprint_;
};

}  // namespace

std::unique_ptr<ImageStore> open_idx(std::vector<fs::path> paths, const ImageOptions& options,
                                     const std::string& what) {
  auto files = std::make_unique<const FilePool>(with_labels(paths, what), what);
  return std::make_unique<Idx>(std::move(files), options, what);
}

}  // namespace accrue::data
