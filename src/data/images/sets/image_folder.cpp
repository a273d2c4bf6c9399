#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "data/files/fingerprint.h"
#include "data/files/glob.h"
#include "data/files/suffix.h"
#include "data/images/decode/image_file.h"
#include "data/images/sets/class_folders.h"
#include "data/images/sets/image_store.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

/// The files in folders of classes.
std::vector<fs::path> with_class(const std::vector<fs::path>& files, const ClassFolders& folders) {
  std::vector<fs::path> found;
  std::ranges::copy_if(files, std::back_inserter(found),
                       [&](const fs::path& file) { return !folders.class_of(file).empty(); });
  return found;
}

/// "." for the working directory.
std::string folder_in_words(const fs::path& folder) {
  return folder.empty() ? "." : folder.string();
}

bool holds_images(const fs::path& folder) {
  std::error_code unreadable;
  const fs::directory_iterator entries(folder, unreadable);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return has_image_suffix(entry.path());
  });
}

/// Whether other folders with images lie beside one.
bool has_folders_of_images_beside(const fs::path& folder) {
  std::error_code unreadable;
  const fs::directory_iterator entries(folder_in_words(folder.parent_path()), unreadable);
  return std::any_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored) && !fs::equivalent(entry.path(), folder, ignored) &&
           holds_images(entry.path());
  });
}

/// How to state the classes of images that are all in the folder of `image`: if that is one of
/// several, by the folder around it, otherwise by folders in it.
std::string with_classes(const fs::path& image) {
  const fs::path folder = folder_in_words(image.parent_path());
  const bool is_class = has_folders_of_images_beside(folder);
  const fs::path root = is_class ? fs::path(folder_in_words(folder.parent_path())) : folder;
  const std::string suffix = image.extension().string();
  const std::string train =
      "train = [\"" + (root / "*" / ("*" + suffix)).string() + "\"] in [data]";
  const std::string init = "accrue init " + root.string();
  if (is_class) return init + ", or " + train;
  return "moving each image to " + (root / "CLASS" / ("NAME" + suffix)).string() + ", and " + init +
         ", or " + train;
}

/// Spreads class folders' images evenly: any range of samples has about the whole's proportions, so
/// a held-out part at the end has too.
class Spread {
 public:
  explicit Spread(std::size_t classes) : counts_(classes) {}

  void add(std::size_t file, std::size_t of_class) {
    places_.push_back({file, of_class, counts_[of_class]++});
  }
  std::int64_t count(std::size_t of_class) const { return counts_[of_class]; }

  struct Place {
    std::size_t file, of_class;
    std::int64_t rank;  ///< number among the images of its class
  };
  /// Image k of a class of n goes to (k + 1/2) / n of the way; ties are ordered by class.
  std::vector<Place> sorted() && {
    std::sort(places_.begin(), places_.end(), [this](const Place& a, const Place& b) {
      const std::int64_t left = (2 * a.rank + 1) * counts_[b.of_class];
      const std::int64_t right = (2 * b.rank + 1) * counts_[a.of_class];
      return left != right ? left < right : a.of_class < b.of_class;
    });
    return std::move(places_);
  }

 private:
  std::vector<std::int64_t> counts_;
  std::vector<Place> places_;
};

class ImageFolders final : public ImageStore {
 public:
  ImageFolders(const FoundFiles& found, const ImageOptions& options, const std::string& what)
      : folders_(options.globs, found, options.classes, what),
        files_(std::make_unique<const FilePool>(with_class(found.files, folders_), what)) {
    for (std::size_t file = 0; file < files_->count(); ++file)
      excluded_.push_back(options.excluded.contains(files_->path(file)));
    classes_ = options.classes.empty() ? found_classes(what) : options.classes;
    for (std::size_t i = 0; i < classes_.size(); ++i) numbers_.emplace(classes_[i], i);
    take_headers(what);
    Spread spread(classes_.size());
    for (std::size_t file = 0; file < files_->count(); ++file)
      if (!excluded_[file] || numbers_.contains(class_of(file)))
        spread.add(file, class_number(file, what));
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < classes_.size(); ++i)
      parts.push_back(classes_[i] + ":" + std::to_string(spread.count(i)));
    for (const Spread::Place& place : std::move(spread).sorted())
      samples_.push_back(
          {static_cast<std::uint32_t>(place.file), static_cast<std::uint32_t>(place.of_class)});
    fingerprint_.emplace("images, folders", *files_, std::move(parts));
  }

  std::int64_t size() const override { return std::ssize(samples_); }
  ShapeCounts shapes() const override { return shapes_; }
  Decoding decoding() const override { return decoding_; }
  std::vector<std::string> classes() const override { return classes_; }
  std::vector<std::string> remarks() const override { return folders_.remarks(); }
  std::string fingerprint() const override { return fingerprint_->text(); }
  std::vector<DataFile> files() const override { return fingerprint_->files(); }

  ImageRead read(std::int64_t index, DecodedImage& image) const override {
    const Sample& sample = samples_[static_cast<std::size_t>(index)];
    if (excluded_[sample.file]) return {};
    std::string failure = decode_image_file(*files_, sample.file, image);
    if (!failure.empty()) return {.label = {}, .failure = std::move(failure)};
    return {.label = sample.of_class, .failure = {}};
  }

  std::optional<std::int64_t> label(std::int64_t index) const override {
    const Sample& sample = samples_[static_cast<std::size_t>(index)];
    return excluded_[sample.file] ? std::nullopt : std::optional<std::int64_t>(sample.of_class);
  }

  std::string name(std::int64_t index) const override {
    return files_->path(samples_[static_cast<std::size_t>(index)].file).string();
  }

 private:
  struct Sample {
    std::uint32_t file = 0;
    std::uint32_t of_class = 0;
  };

  const std::string& class_of(std::size_t file) const {
    return folders_.class_of(files_->path(file));
  }

  std::vector<std::string> found_classes(const std::string& what) const {
    std::set<std::string> names;
    for (std::size_t file = 0; file < files_->count(); ++file) names.insert(class_of(file));
    if (names.size() >= 2) return {names.begin(), names.end()};
    const fs::path& first = files_->path(0);
    throw usage_error(what, "images in at least two folders, one for each class",
                      "all " + std::to_string(files_->count()) + " in " +
                          folder_in_words(first.parent_path()) + ", of class '" + *names.begin() +
                          "'",
                      with_classes(first));
  }

  std::size_t class_number(std::size_t file, const std::string& what) const {
    const auto found = numbers_.find(class_of(file));
    if (found != numbers_.end()) return found->second;
    throw usage_error(what, "images of the classes of the training data",
                      files_->path(file).string() + ": class '" + class_of(file) + "'",
                      "training images of that class, or a glob that leaves it out");
  }

  void take_headers(const std::string& what) {
    for (std::size_t file = 0; file < files_->count(); ++file) {
      if (excluded_[file]) continue;
      const ImageHeader header = require_image_header(*files_, file, what);
      ++shapes_[header.shape];
      decoding_ = larger(decoding_, decoding_of(*files_, file, header));
    }
  }

  ClassFolders folders_;
  std::unique_ptr<const FilePool> files_;
  std::vector<bool> excluded_;  ///< by file
  ShapeCounts shapes_;
  Decoding decoding_;
  std::vector<std::string> classes_;
  std::map<std::string, std::size_t> numbers_;  ///< of the classes, by their names
  std::vector<Sample> samples_;
  std::optional<Fingerprint> fingerprint_;
};

}  // namespace

std::unique_ptr<ImageStore> open_image_folders(const FoundFiles& found, const ImageOptions& options,
                                               const std::string& what) {
  return std::make_unique<ImageFolders>(found, options, what);
}

}  // namespace accrue::data
