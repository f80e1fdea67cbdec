// RUN: pydisc opt %s --passes=fuse | filecheck %s

"disc_shape.symbolic_dim"() {sym_name = "S0", min = 0 : i64} : () -> ()
"disc_shape.symbolic_dim"() {sym_name = "S1", min = 0 : i64} : () -> ()

// Two reductions and everything around them are one kernel.
// CHECK-LABEL: func.func @main
// CHECK: "disc.fusion"
// CHECK: stablehlo.maximum
// CHECK: stablehlo.exponential
// CHECK: stablehlo.divide
// CHECK: kind = "row"
// CHECK-NOT: disc.fusion
func.func @main(%x: tensor<?x?xf32, [@S0, @S1]>) -> tensor<?x?xf32, [@S0, @S1]> {
  %d0 = "disc_shape.dim"() {symbol = @S0} : () -> index
  %d1 = "disc_shape.dim"() {symbol = @S1} : () -> index
  %shape = tensor.from_elements %d0, %d1 : tensor<2xindex>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<?x?xf32, [@S0, @S1]>, tensor<f32>) -> tensor<?xf32, [@S0]>
  %1 = stablehlo.dynamic_broadcast_in_dim %0, %shape, dims = [0] : (tensor<?xf32, [@S0]>, tensor<2xindex>) -> tensor<?x?xf32, [@S0, @S1]>
  %2 = stablehlo.subtract %x, %1 : tensor<?x?xf32, [@S0, @S1]>
  %3 = stablehlo.exponential %2 : tensor<?x?xf32, [@S0, @S1]>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<?x?xf32, [@S0, @S1]>, tensor<f32>) -> tensor<?xf32, [@S0]>
  %5 = stablehlo.dynamic_broadcast_in_dim %4, %shape, dims = [0] : (tensor<?xf32, [@S0]>, tensor<2xindex>) -> tensor<?x?xf32, [@S0, @S1]>
  %6 = stablehlo.divide %3, %5 : tensor<?x?xf32, [@S0, @S1]>
  return %6 : tensor<?x?xf32, [@S0, @S1]>
}
