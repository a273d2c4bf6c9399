#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "accrue/data/source.h"
#include "file_pool.h"

namespace accrue::data {

/// What became of an image that was asked for.
struct ImageRead {
  std::optional<std::int64_t> label;  ///< its class; none where there are no pixels
  std::string failure;                ///< why it does not decode, with its name
};

/// Images of one shape and their classes, however they are kept. Safe from several threads.
class ImageStore {
 public:
  virtual ~ImageStore() = default;
  virtual std::int64_t size() const = 0;
  virtual ImageShape shape() const = 0;
  virtual std::vector<std::string> classes() const = 0;
  virtual std::vector<std::string> remarks() const { return {}; }
  /// Puts image `index` into `pixels`, as bytes [C, H, W].
  virtual ImageRead read(std::int64_t index, std::span<std::uint8_t> pixels) const = 0;
  virtual std::string fingerprint() const = 0;
};

struct ImageOptions {
  std::vector<std::string> classes;          ///< known ones; empty: as the files say
  std::int64_t class_bound = 0;              ///< labels must be below; 0: not checked
  std::set<std::filesystem::path> excluded;  ///< of the paths, those not to be used
};

/// Of each opener: throws a usage Error, its operation being `what`, that names the file, as
/// SourceOptions and open_source say.
///
/// Encoded images, their class being the name of the folder they lie in. Their shapes are read now,
/// their pixels when asked for.
std::unique_ptr<ImageStore> open_image_folders(std::vector<std::filesystem::path> paths,
                                               const ImageOptions& options,
                                               const std::string& what);
/// CIFAR's binary version: records of a label (CIFAR-100: a coarse and a fine one) and 3 planes of
/// 32 x 32 bytes (Krizhevsky: "Learning multiple layers of features from tiny images", 2009).
std::unique_ptr<ImageStore> open_cifar(std::vector<std::filesystem::path> paths,
                                       const ImageOptions& options, const std::string& what);
/// MNIST's idx files (LeCun, Cortes, Burges): of images; that of the labels is found beside it.
std::unique_ptr<ImageStore> open_idx(std::vector<std::filesystem::path> paths,
                                     const ImageOptions& options, const std::string& what);

/// "3 x 32 x 32".
std::string text_of(const ImageShape& shape);

}  // namespace accrue::data
