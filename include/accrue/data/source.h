#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/data/augment.h"
#include "accrue/data/format.h"
#include "accrue/data/tokenizer.h"

namespace accrue::data {

/// What one image is, in pixels.
struct ImageShape {
  std::int64_t channels = 0;  ///< 1: grey, 3: red, green, blue
  std::int64_t height = 0;
  std::int64_t width = 0;
  auto operator<=>(const ImageShape&) const = default;
};

/// A file that a source reads, or all of its files in one folder where it has many.
struct DataFile {
  std::filesystem::path path;
  std::int64_t files = 1;
  std::int64_t bytes = 0;
  std::string fingerprint;  ///< of size and content, in 16 digits; of a folder also of the names
  bool operator==(const DataFile&) const = default;
};

class Source;

/// A part of a mixture, which is drawn from by its weight.
struct MixturePart {
  std::string name;  ///< for people: the pattern of its files
  std::shared_ptr<const Source> source;
  double weight = 1;  ///< > 0; only the ratio of weights counts
};

/// What one thread holds while it decodes the largest sample, beside the micro-batch: the bytes of
/// its file and those of its pixels.
struct Decoding {
  std::int64_t bytes = 0;  ///< 0: nothing is decoded
  std::string name;        ///< of the sample's file, for people
};

/// Samples with random access: `fetch` is a pure function of the indices, so any micro-batch can be
/// made again. Safe to call from several threads.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;  ///< samples
  /// Token ids are in [0, vocab); for images the number of classes; 0 if the files do not tell.
  virtual std::int64_t vocab() const = 0;
  /// Whether some of the data is text, which this source makes into tokens.
  virtual bool has_text() const { return false; }
  /// Whether the samples are conversations, which a chat template makes into text.
  virtual bool has_conversations() const { return false; }
  /// What makes them of it; null: a byte is one.
  virtual std::shared_ptr<const Tokenizer> tokenizer() const { return nullptr; }
  /// Input tokens of sample `index` in [0, size()); an image is one.
  virtual std::int64_t tokens(std::int64_t index) const = 0;
  /// Input tokens of every sample; nothing if samples may differ (windows then go by `tokens`).
  virtual std::optional<std::int64_t> uniform_tokens() const = 0;
  /// Whether samples are to be drawn in their order (data.order = "sequential"), as any other would
  /// read most of the data for each micro-batch (stream_source()).
  virtual bool reads_in_order() const { return false; }
  /// What each image is brought to; nothing if there are no images.
  virtual std::optional<ImageShape> image_shape() const { return std::nullopt; }
  /// The most that fetch() takes for decoding at once. libtorch's CPU allocator gives it, so that a
  /// memory budget counts it.
  virtual Decoding decoding() const { return {}; }
  /// Whether each pixel of the images has a class of its own (SourceOptions::masks).
  virtual bool has_masks() const { return false; }
  /// What a mixture is made of (mix()), in the order of its samples; empty: it is none.
  virtual std::vector<MixturePart> parts() const { return {}; }
  /// Names of an image set's classes, in the order of their numbers.
  virtual std::vector<std::string> classes() const { return {}; }
  /// The class of image `index` in [0, size()), if it is known without its pixels.
  virtual std::optional<std::int64_t> class_of(std::int64_t /*index*/) const {
    return std::nullopt;
  }
  /// What whoever starts a run should be told of, a sentence each: what was left out, what images
  /// are brought to and why.
  virtual std::vector<std::string> remarks() const { return {}; }

  /// Samples `indices` (each in [0, size())) as one micro-batch. Ids are left to the caller
  /// (fetch_as), and so is spans[i].sample_id: spans, if there are any, are in the order of
  /// `indices`. Padding is id 0 with target -100 and weight 0. An image that does not decode has no
  /// row; neither has one that SourceOptions::exclude names. If `indices` name such images,
  /// sample_ids are the places in `indices` of the samples with a row, and `unreadable` names those
  /// that do not decode, by place, too. Throws a usage Error naming file and position where a token
  /// lies outside the vocabulary, and a runtime Error if a file was changed since it was opened,
  /// or cannot be read any more.
  virtual batch::MicroBatch fetch(std::span<const std::int64_t> indices) const = 0;
  /// fetch() as training sees the samples: where the source augments, sample `indices`[i] is
  /// changed as the draw of ordinal `draws`[i] says. A pure function of both.
  virtual batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                        std::span<const std::int64_t> /*draws*/) const {
    return fetch(indices);
  }
  /// Reads everything once, on all threads, where that can show what fetch() would throw for:
  /// tokens outside the vocabulary. Once for each source; throws as fetch() does.
  virtual void check_contents() const {}
  /// Identifies the data: what a resume compares. Covers the format and packing; and of each file,
  /// in order, the name without its folder (data may move), the size, and a hash of its bytes: of
  /// all of them up to 4 MiB, else of the first and the last MiB and of 32 blocks of 64 KiB evenly
  /// spaced between; of images in folders also the classes.
  virtual std::string fingerprint() const = 0;
  /// What the fingerprint is made of: each file, or where there are more than 1000 each folder of
  /// them. Empty if the samples come from no files.
  virtual std::vector<DataFile> files() const { return {}; }
};

/// Told how far something is that may take long: how many bytes of how many; both alike at the end.
using TellProgress = std::function<void(std::int64_t done, std::int64_t all)>;

struct SourceOptions {
  /// Shell patterns: *, ?, [..], and ** for any number of folders (each once, links to folders
  /// too; hidden names only if the pattern says the dot). A file that several match is taken
  /// once, and a link to nothing is refused.
  std::vector<std::string> globs;
  /// Patterns like `globs` for files that are not to be used; a file that no glob matches is no
  /// matter. Excluded images in folders keep their places among the samples (fetch() gives them no
  /// row), and so all others keep theirs: a run can go on without some. Other excluded files are as
  /// if they were not there.
  std::vector<std::string> exclude;
  /// None goes by suffix: .bin is tokens, .jsonl .jsonlines .json-lines .ndjson .ldjson (and these
  /// with a number behind them, as in .jsonl.1) are jsonl, .parquet is parquet, .png .jpg .jpeg are
  /// images, and so are formats that are refused by name (.bmp, .ppm, .gif, .tiff, .webp ...). All
  /// else goes by its first line: an object of JSON is jsonl, and others are text, but for what is
  /// clearly none (compressed, tables, arrays, JSON that is no lines, binary files), which is
  /// refused by name.
  std::optional<Format> format = std::nullopt;
  /// Asked for where there is text or jsonl; empty, or null: bytes.
  std::function<std::shared_ptr<const Tokenizer>()> tokenizer = {};
  /// If what a tokenizer made of the files is kept, for the next time; empty: nowhere.
  std::filesystem::path cache = {};
  /// Called now and then while a tokenizer makes tokens of text, and JSON lines are read.
  TellProgress tell_progress = {};
  std::int64_t context = 256;  ///< T, which images do not need
  std::int64_t vocab = 0;      ///< the model's; 0: not known, ids are not checked
  bool packing = false;        ///< jsonl: several samples share a row of at most `context`
  bool pairs = false;          ///< jsonl: each line is a pair of sequences, of which one is chosen
  /// jsonl: the fields of each line that become tensors by name, as they stand; empty: lines are
  /// read as below.
  std::vector<std::string> columns = {};
  /// text, tokens, jsonl: no token is only predicted. Inputs are all tokens of a sample, and where
  /// the loss is taken the target is the token itself: for losses that hide it (data::with_masks).
  bool whole = false;
  /// The classes of images, where they are known (those of the training data); files of another
  /// class are refused. Empty: as the files say.
  std::vector<std::string> classes;
  /// Patterns like `globs` for the masks of images (PNG), one for each; empty: an image is of one
  /// class.
  std::vector<std::string> masks = {};
  /// Patterns for the images of another source that have masks among these (the training data's,
  /// where this is held out): a mask of one of them is no other image's here. Not those that
  /// `exclude` names.
  std::vector<std::string> other_images = {};
  /// What images are brought to, where it is known (data.image, the training data's). A 0
  /// is left to the files.
  ImageShape image = {};
  Augment augment = {};    ///< how fetch_drawn() changes images
  std::uint64_t seed = 0;  ///< of these changes
};

/// Opens all files that match, sorted by path (as bytes). docs/guide/data.md has examples.
///
/// text, tokens: the files joined into one stream of tokens with nothing in between. Sample i is
/// tokens [i*T, i*T + T] (T inputs, T targets shifted by one), also across files; a remainder that
/// fills no sample is left out. Text is one token per byte, or as a tokenizer encodes each file as
/// a whole (then it must be UTF-8). A token file holds little-endian ids: uint16 without a header
/// (nanoGPT), or after llm.c's header of 256 int32 (magic, version, count): magic 20240520, version
/// 1 for uint16; magic 20240801, version 7 for uint32.
///
/// jsonl: a sample per line, an object with "text", or "prompt" and "completion" (loss on the
/// completion only), or "input_ids" and "labels" aligned as Hugging Face does it (labels[i] is what
/// position i-1 predicts, labels[0] never counts, -100 is ignored), or "instruction", "input" and
/// "output" (Alpaca: the output is learned), and perhaps "weight": what each term of the sample's
/// loss counts. If text has a tokenizer, the tokens of its template stand around each sample,
/// and its end of text behind it, which counts; prompt and completion are encoded apart. A sample
/// of n tokens has n-1 inputs, the last token being only predicted. Samples of fewer than two
/// tokens are left out (remarks() says how many). Beside "input_ids", a 0 of "completion_mask",
/// "assistant_masks" or "loss_mask" is a token that is not learned; without "labels" the ids are
/// the labels then. "position_ids" that begin again, or "seq_lengths", make several samples of a
/// line, which do not see each other. A key that stands twice is refused; keys that are not read
/// are named (remarks()).
///
/// jsonl as pairs: a sample per line, an object with "prompt", "chosen" and "rejected", and perhaps
/// "weight": two sequences, of which what is behind the prompt counts. Each is a text, which goes
/// on the prompt as a completion does; or a list of messages, of which the assistant's words count,
/// as the tokenizer's chat template writes them behind those of the prompt. If "prompt" is no
/// list, the messages that both sequences begin with are the prompt. A sample's tokens are those of
/// both sequences; each has at most `context` inputs.
///
/// jsonl with columns: of each line, an object, each named field is a number, or numbers in lists
/// within lists, all of one shape but for the length of the outermost list. MicroBatch::columns has
/// them by name, [B, ...]: int64, or fp32 if a number of any line has a fraction. Shorter lists
/// are padded, with 0, or with -100 where the name ends in "labels" or "targets". The first column
/// is `inputs` too, and "labels", or else "targets", of whole numbers is `targets`. A sample has as
/// many tokens as the first column's list is long, at most `context`. Of "attention_mask", where
/// lines have none, 1 is for what the first column has, 0 for its padding.
///
/// parquet: the rows of tables, in order, as jsonl or conversations have them: a column for each
/// key. They are written as lines once, which are kept in SourceOptions::cache. Only in an accrue
/// that was built with Arrow.
///
/// images: fp32 [B, C, H, W], pixel 0 being -1 and the largest 1. A folder per class (PNG, JPEG;
/// classes sorted by name, and spread evenly over the samples' order; the class is a folder that
/// the pattern names: of "train/*/*.png", "train/*/images/*.png" and "train/**/*.png" the first
/// below "train", of "train/cat/*.png" "cat"), CIFAR-10 or CIFAR-100
/// binaries (.bin; fine labels; classes named by batches.meta.txt or fine_label_names.txt beside
/// them, else numbered), or idx files (MNIST: of X-images-idx3-ubyte the labels are in
/// X-labels-idx1-ubyte beside it).
///
/// images with masks: PNG or JPEG files in the order of their paths, whatever their folders are
/// called; targets are int64 [B, H, W], the class of each pixel. The mask of an image is the PNG of
/// its name (without suffix); where folders of masks are called as the image's folder is, the one
/// in such a folder. It has the image's height and width, and one number for each pixel, of at
/// most 8 bits: grey, or an index into a palette. 255 is ignored (target -100), others are classes:
/// `vocab` many, or `classes`, or one more than the highest number in all masks, which are read
/// once for it. Throws a usage Error if an image has no mask, or two images have one, or its
/// size or kind is another; if a number is beyond the classes fetch() does, and
/// check_contents(). A mask is brought to the shape of the images as its image is, cropped, padded
/// (with what is ignored) and flipped by the same draw, but scaled to the nearest pixel as Pillow's
/// resize(NEAREST) does. What else data.augment changes are the pixels of the image alone.
///
/// All images of a source are brought to one shape, by rules that need only their headers:
/// - Channels: 3 where any image is coloured, else 1. Grey becomes colour by repeating it; colour
///   becomes grey (where SourceOptions::image says 1) as ITU-R 601-2 weighs it, (19595 R + 38470 G
///   + 7471 B + 32768) >> 16. Alpha is left out, palettes are colours, of 16 bits the higher 8 are
///   taken. How a camera was held (EXIF) is not looked at.
/// - Size: that of SourceOptions::image; else the one that more than half of the images have; else
///   a square whose side is the median (the lower of two) of the shorter sides, at most 224, taken
///   down to a multiple of 32, or of 8 where it is less than 32.
/// - An image of another size is scaled, by the antialiased bilinear interpolation of Pillow's
///   resize(BILINEAR), to the smallest size of its proportions that covers the wanted one, and
///   cropped to its centre: for squares torchvision's Resize(side) and CenterCrop(side).
///
/// Files are read with pread: resident memory grows with the number of files and of JSON lines (12
/// bytes each), not with their size, and at most 64 are open. Throws a usage Error, its operation
/// being `what` (a config key), that names file and line or position, where a glob matches nothing,
/// formats are mixed, a file is empty, truncated or corrupt, a line is no sample or is longer than
/// the context, an id or label is out of range, no label counts, or all
/// files together hold no sample. Empty text files are fine: trees of sources are full of them.
std::unique_ptr<Source> open_source(const SourceOptions& options, const std::string& what);

struct MixtureOptions {
  std::int64_t context = 256;  ///< the most tokens of a row
  bool packing = false;        ///< several samples share a row
};

/// Sources of tokens as one, whose samples are those of all parts, one part behind the other. What
/// is drawn how often is a sampler's matter (batch::Sampler); the weights are kept for it, and
/// belong to the fingerprint. A micro-batch has samples of several parts, each in the row that it
/// would have were they of one source. Parts are opened without packing, pairs with it, which tells
/// where each sequence ends. Throws a usage Error, its operation being `what`, where a
/// part holds images, a weight is not above 0, or all samples are of one length and `packing` is
/// asked for.
std::unique_ptr<Source> mix(std::vector<MixturePart> parts, const MixtureOptions& options,
                            const std::string& what);

/// Samples [begin, end) of another source: the training or the held-out part. Throws a usage Error
/// if the source has no such samples.
std::unique_ptr<Source> slice(std::shared_ptr<const Source> source, std::int64_t begin,
                              std::int64_t end);

/// Byte tokens back to text, any bytes (not only UTF-8). Throws a usage Error for an id that is no
/// byte.
std::string bytes_to_text(std::span<const std::int64_t> ids);
/// Text as byte tokens, 0-255.
std::vector<std::int64_t> text_to_bytes(std::string_view text);

}  // namespace accrue::data
